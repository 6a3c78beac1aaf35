import { isUnfinishedClone } from '../../store/copying.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { ApiError, badField, conflicting, notFound } from '../ground/api-error.ts';
import { requireGrant } from '../rights/grants.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { requireServerOf } from './single-server.ts';
import { wordOf } from '../endpoint/subject.ts';

/**
 * The object that a field of a body names. It must not be deleting; the caller guards that this holds at the commit.
 *
 * @throws ApiError NOT_FOUND; CONFLICT if it is being deleted.
 */
export function referred<K extends ResourceKind>(
  view: TenantView,
  kind: K,
  id: string,
  field: string,
): ReadonlyResource<K> {
  const it = view.get(kind, id);
  if (it === undefined) throw notFound(wordOf(kind), field);
  if (isDeleting(it))
    throw conflicting(`${wordOf(kind)} is being deleted`, [
      { field, reason: 'deleting', message: `${wordOf(kind)} is being deleted` },
    ]);
  return it;
}

/**
 * The server on which a workload of the project will run, or its default server. @throws as `referred`; ApiError
 * FORBIDDEN unless the project may use the server. A user with a role in the project sees the servers that it may use.
 */
export function usableServer(
  view: TenantView,
  id: string,
  field: string,
  projectId: string,
): ReadonlyResource<'server'> {
  const server = referred(view, 'server', id, field);
  requireGrant(server, projectId, field);
  return server;
}

/**
 * An environment of that project that accepts new content. @throws as `referred`; ApiError CONFLICT for an incomplete
 * clone.
 */
export function referredEnvironment(
  view: TenantView,
  id: string,
  project: ReadonlyResource<'project'>,
): ReadonlyResource<'environment'> {
  const it = referred(view, 'environment', id, 'environment_id');
  if (it.desired.project_id === project.meta.id) {
    refuseUnfinishedClone(it);
    return it;
  }
  const message = 'Environment not found in this project';
  throw new ApiError('NOT_FOUND', message, { details: [{ field: 'environment_id', reason: 'not_found', message }] });
}

/** Only the controller changes the content of a clone until it is complete. @throws ApiError CONFLICT */
export function refuseUnfinishedClone(environment: ReadonlyResource<'environment'>): void {
  if (!isUnfinishedClone(environment)) return;
  const message = 'The environment is still being cloned: wait until its condition Ready is true, or delete it';
  throw conflicting(message, [{ field: 'environment_id', reason: 'cloning', message }]);
}

/**
 * The server of a new workload: the named one, or the default of the project. @throws as `usableServer`; ApiError
 * BAD_REQUEST if there is none, or if the project is in single-server mode and has another one.
 */
export function serverFor(
  view: TenantView,
  project: ReadonlyResource<'project'>,
  named: string | null | undefined,
): ReadonlyResource<'server'> {
  const id = named ?? project.desired.default_server_id;
  if (id === undefined)
    throw badField('server_id', 'required', 'server_id is required as the project has no default server');
  requireServerOf(project, id, 'server_id');
  return usableServer(view, id, 'server_id', project.meta.id);
}
