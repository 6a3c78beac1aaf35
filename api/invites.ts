import { addressOf } from '../store/kinds/membership.ts';
import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';

export type Invite = ReadonlyResource<'invite'>;

/** An invite is open for 7 days. */
export const inviteLifeMs = 7 * 24 * 3_600_000;

/** Whether it can still be accepted; `now` is the wall clock. */
export function isOpen({ desired, meta }: Invite, now: Date): boolean {
  const isPending = desired.state === 'pending' && meta.deletionRequestedAt === undefined;
  return isPending && Date.parse(desired.expires_at) > now.getTime();
}

/** Open invites to whoever owns that address, to projects and to the tenant, oldest first. */
export function openInvitesTo(email: string, view: TenantView, now: Date): readonly Invite[] {
  return view.by('invite', 'email', addressOf(email)).filter((it) => isOpen(it, now));
}
