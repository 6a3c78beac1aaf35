import { placeOf } from '../../store/kinds/membership.ts';
import type { MemberRole } from '../../store/kinds/membership.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { conflicting, forbidden, notFound } from '../ground/api-error.ts';
import { countLimits, requireRoom } from './count-limits.ts';
import type { Column } from './permissions.ts';

export type Member = ReadonlyResource<'member'>;
type Project = ReadonlyResource<'project'>;
type User = ReadonlyResource<'user'>;

/** All members of the project: its owner first, then the others in the order in which they joined. */
export function membersOf(project: Project, view: TenantView): readonly Member[] {
  return [ownerOf(project), ...view.by('member', 'project', project.meta.id)];
}

/** The membership of a user in a project, by its own id or the user's. */
export function memberOf(project: Project, id: string, view: TenantView): Member | undefined {
  if (id === project.desired.owner_id) return ownerOf(project);
  return view.by('member', 'place', placeOf(project.meta.id, id))[0] ?? view.get('member', id);
}

export function isOwner(project: Project, { desired }: Member): boolean {
  return project.desired.owner_id === desired.user_id;
}

/** The owner is named by the project and has no member record; this builds the record that it would be. */
function ownerOf({ meta, desired }: Project): Member {
  const { generation: _, finalizers: __, owners: ___, labels: ____, ...shared } = meta;
  return {
    meta: { ...shared, kind: 'member', id: desired.owner_id, generation: 1, finalizers: [], owners: [], labels: {} },
    desired: { project_id: meta.id, user_id: desired.owner_id, role: 'admin' },
  };
}

/**
 * No caller gives, changes or takes a role at or above their own. Admins of the tenant and the owner are above the
 * admins of a project. @throws ApiError FORBIDDEN
 */
export function requireAbove(column: Column, role: MemberRole): void {
  const above = ['superadmin', 'admin', 'owner'].includes(column) || (column === 'project_admin' && role !== 'admin');
  if (!above) throw forbidden(`Your own role must be above a role that you give or take: ${role}`);
}

/** @throws ApiError CONFLICT */
export function requireSeat(project: Project, view: TenantView): void {
  requireRoom(view.by('member', 'project', project.meta.id).length, countLimits.membersPerProject, {
    where: 'The project',
    what: 'members',
    remedy: 'remove one who is not needed',
  });
}

/** A user who can be given a role. @throws ApiError NOT_FOUND; CONFLICT for a disabled user. */
export function activeUser(id: string, field: string, view: TenantView): User {
  const user = view.get('user', id);
  if (user === undefined) throw notFound('User', field);
  if (!user.desired.disabled) return user;
  const message = `User is disabled, and an admin must enable the account first: ${id}`;
  throw conflicting(message, [{ field, reason: 'disabled', message }]);
}

/** @throws ApiError FORBIDDEN for an account that is confined to other projects */
export function requireWide({ desired }: User, projectId: string): void {
  if (desired.role !== 'user' || desired.confined_to === undefined || desired.confined_to.includes(projectId)) return;
  throw forbidden(
    'The account was made by an invite to another project and is confined to it: ask an admin of the tenant to lift that',
  );
}

/** Guards that the role of a user in a project does not change before the commit. */
export function guardRole(unit: Unit, user: User, project: Project, view: TenantView): void {
  unit.require(user);
  unit.require(project);
  for (const member of view.by('member', 'place', placeOf(project.meta.id, user.meta.id))) unit.require(member);
}
