import { createHash } from 'node:crypto';
import { addressOf } from '../../store/kinds/membership.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { settingsOf } from '../../store/settings.ts';
import { tooMany } from '../ground/api-error.ts';
import { roleOfUser } from './authorize.ts';
import { countLimits } from './count-limits.ts';

export type Invite = ReadonlyResource<'invite'>;

const dayMs = 24 * 3_600_000;
/** An invite is open for 7 days. */
export const inviteLifeMs = 7 * dayMs;

/**
 * Whether an invite can still be accepted: it is pending, it has not expired (`now` is the wall clock), and the inviter
 * may still invite.
 */
export function isOpen(it: Invite, view: TenantView, now: Date): boolean {
  const { state, expires_at } = it.desired;
  return state === 'pending' && Date.parse(expires_at) > now.getTime() && inviterStands(it, view);
}

/** Whether the inviter still has the right to give what the invite offers. */
function inviterStands({ desired }: Invite, view: TenantView): boolean {
  const inviter = view.get('user', desired.invited_by);
  if (inviter === undefined || inviter.desired.disabled) return false;
  if (desired.project_id === undefined)
    return desired.role === 'admin' ? inviter.desired.role === 'superadmin' : inviter.desired.role !== 'user';
  const project = view.get('project', desired.project_id);
  const role = project === undefined ? undefined : roleOfUser(inviter, project, view);
  return role === 'owner' || (role === 'admin' && desired.role !== 'admin');
}

/** Whether the settings let a user bring addresses without an account into the tenant. */
export function mayBringIn({ desired }: ReadonlyResource<'user'>, view: TenantView): boolean {
  return desired.role !== 'user' || settingsOf(view).new_addresses === 'users';
}

/** Bounds the invites of one sender in a day, over all addresses. @throws ApiError TOO_MANY_REQUESTS */
export function requireModesty(sender: string, view: TenantView, now: Date): void {
  const most = countLimits.invitesPerSenderAndDay;
  const made = view.by('invite', 'sender', sender).map(({ meta }) => Date.parse(meta.createdAt));
  const ends = (made.at(-most) ?? Number.NEGATIVE_INFINITY) + dayMs;
  if (ends > now.getTime())
    throw tooMany(`At most ${most} invites a day are sent for one user`, Math.ceil((ends - now.getTime()) / 1000));
}

/** Open invites to the owner of an address, to projects and to the tenant, oldest first. */
export function openInvitesTo(email: string, view: TenantView, now: Date): readonly Invite[] {
  return view.by('invite', 'email', addressOf(email)).filter((it) => isOpen(it, view, now));
}

/** The pending invite of an address to a project, or to the tenant without `projectId`; it may have expired. */
export function pendingInvite(projectId: string | undefined, email: string, view: TenantView): Invite | undefined {
  return view
    .by('invite', 'email', addressOf(email))
    .find(({ desired }) => desired.project_id === projectId && desired.state === 'pending');
}

/** Cancels a pending invite; its record is kept for a while. */
export function cancel(unit: Unit, it: Invite, now: Date): void {
  unit.change(it, (draft) => {
    draft.state = 'cancelled';
    draft.cancelled_at = now.toISOString();
  });
}

/** Bounds the invites to one address in a day. @throws ApiError TOO_MANY_REQUESTS */
export function requirePatience(email: string, view: TenantView, now: Date): void {
  const most = countLimits.invitesPerAddressAndDay;
  const made = view.by('invite', 'email', addressOf(email)).map(({ meta }) => Date.parse(meta.createdAt));
  const ends = (made.at(-most) ?? Number.NEGATIVE_INFINITY) + dayMs;
  if (ends > now.getTime())
    throw tooMany(
      `At most ${most} invites a day are sent to one address: ${email}`,
      Math.ceil((ends - now.getTime()) / 1000),
    );
}

/** The invite with a mailed token, or with an id. */
export function invitedBy(token: string, view: TenantView): Invite | undefined {
  const hash = createHash('sha256').update(token).digest('hex');
  return view.by('invite', 'token', hash)[0] ?? view.get('invite', token.toLowerCase());
}

export function isFor({ desired }: Invite, user: ReadonlyResource<'user'>): boolean {
  return addressOf(desired.email) === addressOf(user.desired.email);
}
