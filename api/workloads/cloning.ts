import { copiedFrom } from '../../store/copying.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isKind, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { ApiError, conflicting } from '../ground/api-error.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { requireGrant } from '../rights/grants.ts';
import { requireBackupRoom } from './backing-up.ts';
import { requireServerRoom } from './server-room.ts';
import { requireServerOf } from './single-server.ts';

/** @throws ApiError CONFLICT if the project has as many environments as it may have. */
export function requireEnvironmentRoom({ meta }: ReadonlyResource<'project'>, view: TenantView): void {
  requireRoom(view.by('environment', 'project', meta.id).length, countLimits.environmentsPerProject, {
    where: 'The project',
    what: 'environments',
    remedy: 'delete one that is not needed',
  });
}

/**
 * Requires that copies of what is in an environment may be where `map` leads them.
 * @throws ApiError if the server of a copy is deleted, is not for the project, is not the one of a single-server project,
 *   or has no room.
 */
export function requireCloneable(
  view: TenantView,
  project: ReadonlyResource<'project'>,
  { meta }: ReadonlyResource<'environment'>,
  map: ReadonlyMap<string, string> = new Map(),
): void {
  for (const workload of copiedFrom(view, meta.id)) checkServer(view, project, workload, map);
  const copies = view.by('application', 'environment', meta.id).map(({ desired }) => ({
    server: map.get(desired.server_id) ?? desired.server_id,
    desired,
  }));
  requireServerRoom(view, copies, 'server_map');
}

function checkServer(
  view: TenantView,
  project: ReadonlyResource<'project'>,
  { desired }: ReadonlyResource,
  map: ReadonlyMap<string, string>,
): void {
  if (!('server_id' in desired) || desired.server_id === undefined) return;
  const target = map.get(desired.server_id) ?? desired.server_id;
  const server = view.get('server', target);
  if (!isStaying(server))
    throw conflicting(`Server ${target} was deleted and has workloads in the environment: name another in server_map`, [
      { field: 'server_map', reason: 'deleted', message: `Server ${target} was deleted` },
    ]);
  requireServerOf(project, target, 'server_map');
  requireGrant(server, project.meta.id, 'server_map');
}

/** @throws ApiError CONFLICT naming what of an environment has data that cannot be copied */
export function requireDataCopyable(view: TenantView, { meta }: ReadonlyResource<'environment'>): void {
  const databases = view.by('database', 'environment', meta.id).map((it) => ({ kind: 'database' as const, it }));
  const volumes = copiedFrom(view, meta.id)
    .filter((it) => isKind(it, 'volume'))
    // others are of a database
    .filter(({ desired }) => desired.database_id === undefined)
    .map((it) => ({ kind: 'volume' as const, it }));
  for (const of of [...databases, ...volumes]) {
    try {
      requireBackupRoom(view, of);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw dataConflict(`${of.kind} ${of.it.desired.name}`, error.message);
    }
  }
  for (const { desired, observed } of view.by('application', 'environment', meta.id)) {
    const services = view.get('deployment', observed?.current_deployment_id ?? '')?.desired.services ?? [];
    if (services.some(({ mounts }) => mounts.some(({ type }) => type === 'volume')))
      throw dataConflict(`application ${desired.name}`, `The volumes of its compose file have no backups`);
  }
}

function dataConflict(what: string, why: string): ApiError {
  const message = `Cannot copy the data of ${what}. ${why}. Or clone without include_data`;
  return conflicting(message, [{ field: 'include_data', reason: 'conflict', message }]);
}
