import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { settingsObject } from '../store/settings.ts';
import { badField, notFound } from './api-error.ts';
import type { SubjectKind } from './endpoint.ts';
import { memberOf } from './members.ts';

/** Words for people. */
export const kindWords: Readonly<Record<SubjectKind, string>> = {
  project: 'Project',
  member: 'Member',
  invite: 'Invite',
  environment: 'Environment',
  server: 'Server',
  application: 'Application',
  deployment: 'Deployment',
  service_key: 'Service key',
  session: 'Session',
  user: 'User',
  settings: 'Settings',
};

/** The parameter with the id of the project, for kinds whose path contains it. */
const parentParams: Partial<Record<SubjectKind, string>> = { environment: 'projectId', member: 'id', invite: 'id' };

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An id from a path or a body, in lower case. @throws ApiError BAD_REQUEST if it is not a UUID. */
export function parseId(field: string, text: string): string {
  const id = text.toLowerCase();
  if (!uuid.test(id)) throw badField(field, 'invalid_uuid', `${field} must be a UUID`);
  return id;
}

/**
 * Loads the object that a path names. An object of another tenant, or of another project than the path names, is not
 * found. @throws ApiError
 */
export function loadSubject<K extends SubjectKind>(
  [kind, param]: readonly [K, string],
  params: ReadonlyMap<string, string>,
  view: TenantView,
): ReadonlyResource<K> {
  if (kind === 'settings') return settingsObject(view) as ReadonlyResource<K>; // K is this kind
  const ids = new Map([...params].map(([name, text]) => [name, parseId(name, text)]));
  const id = ids.get(param);
  if (id === undefined) throw new Error(`Route must have the parameter ${param}`);
  const parentParam = parentParams[kind];
  const parent = parentParam === undefined ? undefined : ids.get(parentParam);
  const project = parent === undefined ? undefined : view.get('project', parent);
  if (parent !== undefined && project === undefined) throw notFound(kindWords.project);
  const it = find(kind, id, project, view);
  if (it === undefined || (parent !== undefined && projectIdOf(it as ReadonlyResource<SubjectKind>) !== parent))
    throw notFound(kindWords[kind]);
  return it;
}

function find<K extends SubjectKind>(
  kind: K,
  id: string,
  project: ReadonlyResource<'project'> | undefined,
  view: TenantView,
): ReadonlyResource<K> | undefined {
  // K is this kind
  if (kind === 'member' && project !== undefined) return memberOf(project, id, view) as ReadonlyResource<K> | undefined;
  return view.get(kind, id);
}

const kindsOfTenant = ['server', 'service_key', 'session', 'user', 'settings'] as const;
type KindOfTenant = (typeof kindsOfTenant)[number];

/** The project whose roles decide about an object; `undefined` for objects of the tenant. */
export function projectIdOf(it: ReadonlyResource<SubjectKind>): string | undefined {
  const { kind, id } = it.meta;
  if (kind === 'project') return id;
  if (kindsOfTenant.some((one) => one === kind)) return undefined;
  // every other kind belongs to a project
  return (it as ReadonlyResource<Exclude<SubjectKind, 'project' | KindOfTenant>>).desired.project_id;
}
