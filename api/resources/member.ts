import { z } from 'zod';
import { MemberRole } from '../../store/kinds/membership.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isOwner, memberOf } from '../rights/members.ts';
import { objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

export const Member = z
  .object({
    ...objectFields,
    project_id: z.string(),
    user_id: z.string(),
    email: z.string(),
    first_name: z.string(),
    last_name: z.string(),
    role: z.enum(['owner', ...MemberRole.options]),
    status: z.enum(['active', 'disabled']).meta({ description: 'Whether the user can log in' }),
  })
  .meta({ id: 'Member' });
export type Member = z.infer<typeof Member>;

/** A role that can be given; the owner changes only by transfer. */
export const GivenRole = z.enum(MemberRole.options, 'Must be admin, member or viewer: the owner changes by transfer');

export const MemberCreate = z.strictObject({ user_id: Reference, role: GivenRole.default('member') });
export const MemberUpdate = z.strictObject({ role: GivenRole });

const userOf = ({ desired }: ReadonlyResource<'member'>, view: TenantView) =>
  view.get('user', desired.user_id)?.desired;

export const members = defineResource({
  kind: 'member',
  word: 'Member',
  project: ({ desired }) => desired.project_id,
  under: 'id',
  find: (view, id, project) => (project === undefined ? view.get('member', id) : memberOf(project, id, view)),
  answer: Member,
  seen(it, view): Pick<Member, 'email' | 'first_name' | 'last_name' | 'role' | 'status'> {
    const user = userOf(it, view);
    const project = view.get('project', it.desired.project_id);
    return {
      email: user?.email ?? '',
      first_name: user?.first_name ?? '',
      last_name: user?.last_name ?? '',
      role: project !== undefined && isOwner(project, it) ? 'owner' : it.desired.role,
      status: user?.disabled === false ? 'active' : 'disabled',
    };
  },
  show: (it, { email, first_name, last_name, role, status }) => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id,
    user_id: it.desired.user_id,
    email,
    first_name,
    last_name,
    role,
    status,
  }),
  list: {
    texts: (it, view) => {
      const user = userOf(it, view);
      return [user?.email, user?.first_name, user?.last_name];
    },
    status: {
      values: ['active', 'disabled'],
      of: (it, view) => (userOf(it, view)?.disabled === false ? 'active' : 'disabled'),
    },
    sorts: { email: (it, view) => userOf(it, view)?.email ?? '' },
  },
  verbs: { none: 'A membership has no states' },
  watch: { never: 'A reader whose own place changes gets a gap, and reads the lists again' },
});
