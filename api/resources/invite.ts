import { z } from 'zod';
import { invite, InviteState } from '../../store/kinds/membership.ts';
import { GivenRole } from './member.ts';
import { objectFields, objectFieldsOf } from './object-fields.ts';
import { defineResource } from './resource.ts';
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

export const invites = defineResource({
  kind: 'invite',
  word: 'Invite',
  project: ({ desired }) => desired.project_id,
  under: 'id',
  answer: Invite,
  seen: ({ desired }, view) => ({
    project_name: (desired.project_id && view.get('project', desired.project_id)?.desired.name) ?? null,
    invited_by_email: view.get('user', desired.invited_by)?.desired.email ?? null,
  }),
  /** Contains neither the token nor its hash. */
  show: (it, { project_name, invited_by_email }) => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id ?? null,
    project_name,
    email: it.desired.email,
    role: it.desired.role,
    status: it.desired.state,
    invited_by: it.desired.invited_by,
    invited_by_email,
    expires_at: it.desired.expires_at,
    accepted_at: it.desired.accepted_at ?? null,
  }),
  list: {
    texts: ({ desired }) => [desired.email],
    status: { values: InviteState.options, of: ({ desired }) => desired.state },
    sorts: { email: ({ desired }) => desired.email },
  },
  verbs: { none: 'It is open or not, which also depends on the time' },
  watch: { never: 'Whether it is open also depends on the time; its owner is notified' },
});
