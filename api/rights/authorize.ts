import { grants } from '../../store/grants.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { KeyScope } from '../../store/kinds/identity.ts';
import { placeOf } from '../../store/kinds/membership.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { settingsOf } from '../../store/settings.ts';
import { ApiError, forbidden } from '../ground/api-error.ts';
import { keyOf } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import type { Granted } from '../../store/grants.ts';
import { columns } from './permissions.ts';
import type { Column, Grant, Permission } from './permissions.ts';

export type ProjectRole = 'owner' | 'admin' | 'member' | 'viewer';
type Project = ReadonlyResource<'project'>;

/** The column and the mark of the permission table by which a caller was let in. */
export interface Access {
  column: Column;
  grant: Exclude<Grant, '-'>;
}

/** Where a row is judged: in a project, or in the tenant, where the best role in any of its projects counts. */
export interface Place {
  tenant: TenantView;
  project?: Project;
  /** An object of the tenant that projects use: only the roles in projects that may use it count. */
  granted?: Granted;
}

const scopeRank: Readonly<Record<KeyScope, number>> = { read: 1, deploy: 2, write: 3, admin: 4 };
const roleRank: Readonly<Record<ProjectRole, number>> = { viewer: 1, member: 2, admin: 3, owner: 4 };
const roleColumn = { owner: 'owner', admin: 'project_admin', member: 'member', viewer: 'viewer' } as const;

/**
 * Decides every right; no other code does. @throws ApiError FORBIDDEN unless the row allows it: the default is to deny.
 */
export function authorize(principal: Principal, permission: Permission, place: Place): Access {
  if (principal.user.desired.must_reset_password && !permission.isOpenInReset) throw passwordIsToChange();
  const key = keyOf(principal);
  if (key !== undefined) requireScope(key, permission.scope);
  const { tenant, project, granted } = place;
  const column =
    project === undefined ? columnInTenant(principal, tenant, granted) : columnIn(principal, project, tenant);
  const grant = permission.grants[column];
  if (grant === '-') throw roleTooLow(permission, column);
  if (permission.isSwitched && column === 'admin' && settingsOf(tenant).server_terminals === 'superadmins')
    throw forbidden('Only superadmins open terminals of servers here: the setting server_terminals says so');
  if (project === undefined && isNarrowed(principal) && !isForNarrowed(permission, grant))
    throw forbidden('The service key is narrowed to one project');
  const isMasked = permission.isMasked && key !== undefined && !scopeCovers(key.desired.scopes, 'write');
  return { column, grant: isMasked && grant === '+' ? 'm' : grant };
}

const roleWords: Readonly<Record<Column, string>> = {
  superadmin: 'superadmin of the tenant',
  admin: 'admin of the tenant',
  owner: 'project owner',
  project_admin: 'project admin',
  member: 'project member',
  viewer: 'project viewer',
  other: 'user without a project',
};

/** Names the role of the caller, and the lowest one that may. */
function roleTooLow({ grants: row }: Permission, column: Column): ApiError {
  const least = columns.findLast((it) => row[it] !== '-');
  if (least === undefined) return forbidden();
  const isOfTenant = least === 'superadmin' || least === 'admin';
  return forbidden(
    `Not allowed: your role is ${roleWords[column]}, and this takes at least ${roleWords[least]}. Ask ${isOfTenant ? '' : 'an owner of the project or '}${least === 'superadmin' ? 'a superadmin' : 'an admin of the tenant'}`,
  );
}

/** @throws ApiError FORBIDDEN */
function requireScope({ desired: { scopes } }: ReadonlyResource<'service_key'>, scope: Permission['scope']): void {
  if (scope === 'session')
    throw forbidden('A service key cannot change the credentials of an account: log in and use the token');
  if (!scopeCovers(scopes, scope))
    throw forbidden(`The scopes of the service key do not cover this: it needs ${scope}`);
}

/** Whether a key that is narrowed to a project may use a route that belongs to no project. */
function isForNarrowed({ scope, isOfNarrowed }: Permission, grant: Grant): boolean {
  if (grant === 's') return isOfNarrowed;
  return grant !== '+' || scope === 'read';
}

function passwordIsToChange(): ApiError {
  const message =
    'The operator reset the password of this account, so that nothing else is allowed before it is changed: run `setpoint password`, or PUT /auth/me/password';
  return new ApiError('FORBIDDEN', message, {
    details: [{ field: 'password', reason: 'password_reset_required', message }],
  });
}

/**
 * The role of a principal in a project, as its owner or a member; admins of the tenant have the role `owner`
 * everywhere. A key that is narrowed to another project has none.
 */
export function projectRole(principal: Principal, project: Project, view: TenantView): ProjectRole | undefined {
  const narrowed = keyOf(principal)?.desired.project_id;
  return narrowed !== undefined && narrowed !== project.meta.id ? undefined : roleOfUser(principal.user, project, view);
}

/** The role of a user in a project, with any credential. */
export function roleOfUser(
  { meta, desired }: ReadonlyResource<'user'>,
  project: Project,
  view: TenantView,
): ProjectRole | undefined {
  if (desired.role !== 'user') return 'owner';
  if (desired.confined_to?.includes(project.meta.id) === false) return undefined;
  if (project.desired.owner_id === meta.id) return 'owner';
  const [member] = view.by('member', 'place', placeOf(project.meta.id, meta.id));
  return member?.desired.role;
}

/** Projects whose objects the principal may see; `all` for admins of the tenant. */
export function visibleProjects(principal: Principal, view: TenantView): 'all' | ReadonlySet<string> {
  const narrowed = keyOf(principal)?.desired.project_id;
  if (narrowed === undefined && isTenantAdmin(principal)) return 'all';
  const visible = ownProjects(principal, view).filter((it) => projectRole(principal, it, view) !== undefined);
  return new Set(visible.map((project) => project.meta.id));
}

/** Whether the principal has a role in a project that may use the server, and so sees its name and status. */
export function mayUse(principal: Principal, server: ReadonlyResource<'server'>, view: TenantView): boolean {
  return ownProjects(principal, view).some(
    (it) => grants(server, it.meta.id) && projectRole(principal, it, view) !== undefined,
  );
}

/** The projects in which the principal may have a role, found by index and not by a scan of all. */
function ownProjects(principal: Principal, view: TenantView): readonly Project[] {
  const narrowed = keyOf(principal)?.desired.project_id;
  const user = principal.user.meta.id;
  const ids = narrowed === undefined ? view.by('member', 'user', user).map((it) => it.desired.project_id) : [narrowed];
  const found = ids.map((id) => view.get('project', id)).filter((it) => it !== undefined);
  return narrowed === undefined ? [...view.by('project', 'owner', user), ...found] : found;
}

/**
 * Whether the scopes of a key cover the needed one. Each scope covers the lower ones; a key without scopes covers all.
 */
export function scopeCovers(scopes: readonly KeyScope[] | undefined, needed: KeyScope): boolean {
  return scopes === undefined || scopes.some((scope) => scopeRank[scope] >= scopeRank[needed]);
}

/** Whether the user administers the tenant; the service key in use may still be narrowed. */
export function isTenantAdmin(principal: Principal): boolean {
  return principal.user.desired.role !== 'user';
}

/** Whether the principal sees the whole of servers and other tenant objects: an admin whose key is not narrowed. */
export function isTenantWide(principal: Principal): boolean {
  return isTenantAdmin(principal) && !isNarrowed(principal);
}

/** A key that is narrowed to a project has the rights of its owner there, and no tenant-wide rights. */
function isNarrowed(principal: Principal): boolean {
  return keyOf(principal)?.desired.project_id !== undefined;
}

function columnIn(principal: Principal, project: Project, view: TenantView): Column {
  const role = projectRole(principal, project, view);
  if (role === undefined) return 'other';
  return tenantColumn(principal) ?? roleColumn[role];
}

function columnInTenant(principal: Principal, view: TenantView, granted: Place['granted']): Column {
  const tenantWide = tenantColumn(principal);
  if (tenantWide !== undefined) return tenantWide;
  let best: ProjectRole | undefined;
  for (const project of ownProjects(principal, view)) {
    if (granted !== undefined && !grants(granted, project.meta.id)) continue;
    const role = projectRole(principal, project, view);
    if (role !== undefined && (best === undefined || roleRank[role] > roleRank[best])) best = role;
    if (best === 'owner') break;
  }
  return best === undefined ? 'other' : roleColumn[best];
}

function tenantColumn(principal: Principal): 'superadmin' | 'admin' | undefined {
  const { role } = principal.user.desired;
  return role === 'user' || isNarrowed(principal) ? undefined : role;
}
