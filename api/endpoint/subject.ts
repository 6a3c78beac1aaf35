import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, notFound } from '../ground/api-error.ts';
import type { Place } from '../rights/authorize.ts';
import type { Granted } from '../../store/grants.ts';
import { resourceOf } from '../resources/resources.ts';
import type { ResourceKind } from '../resources/resources.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An id from a path or a body, in lower case. @throws ApiError BAD_REQUEST if it is not a UUID. */
export function parseId(field: string, text: string): string {
  const id = text.toLowerCase();
  if (!uuid.test(id)) throw badField(field, 'invalid_uuid', `${field} must be a UUID`);
  return id;
}

/** The kind in words for people. */
export function wordOf(kind: ResourceKind): string {
  return resourceOf(kind).word;
}

/**
 * Loads the object that a path names. An object of another tenant, or of another project than the path names, is not
 * found. @throws ApiError
 */
export function loadSubject<K extends ResourceKind>(
  [kind, param]: readonly [K, string],
  params: ReadonlyMap<string, string>,
  view: TenantView,
): ReadonlyResource<K> {
  const { single, find, under, word } = resourceOf(kind);
  if (single !== undefined) return single(view);
  const ids = new Map([...params].map(([name, text]) => [name, parseId(name, text)]));
  const id = ids.get(param);
  if (id === undefined) throw new Error(`Route must have the parameter ${param}`);
  const parent = under === undefined ? undefined : ids.get(under);
  const project = parent === undefined ? undefined : view.get('project', parent);
  if (parent !== undefined && project === undefined) throw notFound(wordOf('project'));
  const it = find === undefined ? view.get(kind, id) : find(view, id, project);
  if (it === undefined || (parent !== undefined && projectIdOf(it) !== parent)) throw notFound(word);
  return it;
}

/** The project whose roles decide about an object; `undefined` for objects of the tenant. */
export function projectIdOf<K extends ResourceKind>(it: ReadonlyResource<K>): string | undefined {
  const { project } = resourceOf(it.meta.kind);
  return project === 'tenant' ? undefined : project(it);
}

/** Kinds with `allowed_projects`. */
const grantedKinds: ReadonlySet<ResourceKind> = new Set(['server', 'git_credential', 'registry'] as const);

/** The place at which the right to an object that belongs to no project is judged. */
export function tenantPlace(view: TenantView, it: ReadonlyResource<ResourceKind>): Place {
  return grantedKinds.has(it.meta.kind) ? { tenant: view, granted: it as Granted } : { tenant: view }; // of such a kind
}
