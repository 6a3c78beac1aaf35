import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { badField, notFound } from './api-error.ts';
import type { SubjectKind } from './endpoint.ts';

/** Words for people. */
export const kindWords: Readonly<Record<SubjectKind, string>> = {
  project: 'Project',
  environment: 'Environment',
  server: 'Server',
  application: 'Application',
  deployment: 'Deployment',
  service_key: 'Service key',
  session: 'Session',
  user: 'User',
};

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An id from a path or a body, in its one form. @throws ApiError BAD_REQUEST for what is no UUID. */
export function parseId(field: string, text: string): string {
  const id = text.toLowerCase();
  if (!uuid.test(id)) throw badField(field, 'invalid_uuid', `${field} must be a UUID`);
  return id;
}

/**
 * The object that a path points at. An object of another tenant, or below another parent than the path says, is not
 * found. @throws ApiError
 */
export function loadSubject<K extends SubjectKind>(
  [kind, param]: readonly [K, string],
  params: ReadonlyMap<string, string>,
  view: TenantView,
): ReadonlyResource<K> {
  const ids = new Map([...params].map(([name, text]) => [name, parseId(name, text)]));
  const id = ids.get(param);
  if (id === undefined) throw new Error(`Route must have the parameter ${param}`);
  const parent = kind === 'environment' ? ids.get('projectId') : undefined;
  if (parent !== undefined && view.get('project', parent) === undefined) throw notFound(kindWords.project);
  const it = view.get(kind, id);
  if (it === undefined || (parent !== undefined && projectIdOf(it as ReadonlyResource<SubjectKind>) !== parent))
    throw notFound(kindWords[kind]);
  return it;
}

/** Project whose roles decide about an object; `undefined` for objects of the tenant. */
export function projectIdOf(it: ReadonlyResource<SubjectKind>): string | undefined {
  const { kind, id } = it.meta;
  if (kind === 'project') return id;
  if (kind === 'server' || kind === 'service_key' || kind === 'session' || kind === 'user') return undefined;
  // the kinds that are left belong to a project
  return (it as ReadonlyResource<'environment' | 'application' | 'deployment'>).desired.project_id;
}
