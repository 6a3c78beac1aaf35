import { z } from 'zod';
import { invite, InviteState } from '../../store/kinds/membership.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Invite as Stored } from '../invites.ts';
import { GivenRole } from './member.ts';
import { objectFields, objectFieldsOf } from './object-fields.ts';
import { Email } from './user.ts';

export const Invite = z
  .object({
    ...objectFields,
    project_id: z.string().nullable(),
    project_name: z.string().nullable(),
    email: z.string(),
    role: invite.desired.shape.role,
    status: InviteState,
    invited_by: z.string(),
    invited_by_email: z.string().nullable(),
    expires_at: z.string(),
    accepted_at: z.string().nullable(),
  })
  .meta({ id: 'Invite' });
export type Invite = z.infer<typeof Invite>;

export const InviteCreate = z.strictObject({ email: Email, role: GivenRole.default('member') });

/** Contains neither the token nor its hash. */
export function toInvite(it: Stored, view: TenantView): Invite {
  const { desired } = it;
  const project = desired.project_id === undefined ? undefined : view.get('project', desired.project_id);
  return {
    ...objectFieldsOf(it),
    project_id: desired.project_id ?? null,
    project_name: project?.desired.name ?? null,
    email: desired.email,
    role: desired.role,
    status: desired.state,
    invited_by: desired.invited_by,
    invited_by_email: view.get('user', desired.invited_by)?.desired.email ?? null,
    expires_at: desired.expires_at,
    accepted_at: desired.accepted_at ?? null,
  };
}
