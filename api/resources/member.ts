import { z } from 'zod';
import { MemberRole } from '../../store/kinds/membership.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isOwner } from '../members.ts';
import { objectFields, objectFieldsOf, Reference } from './object-fields.ts';

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

export function toMember(
  it: ReadonlyResource<'member'>,
  project: ReadonlyResource<'project'>,
  view: TenantView,
): Member {
  const { project_id, user_id, role } = it.desired;
  const user = view.get('user', user_id)?.desired;
  return {
    ...objectFieldsOf(it),
    project_id,
    user_id,
    email: user?.email ?? '',
    first_name: user?.first_name ?? '',
    last_name: user?.last_name ?? '',
    role: isOwner(project, it) ? 'owner' : role,
    status: user?.disabled === false ? 'active' : 'disabled',
  };
}
