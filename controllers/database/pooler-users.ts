import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { Resolved } from '../../store/kinds/fields.ts';
import { poolerService, sideHost } from '../../store/kinds/internal-id.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/**
 * Whether what runs in the environment of a database has the address of its pooler. What was deployed while connections were
 * pooled keeps that address until another deployment or version has taken its place, which may fail. Pure.
 */
export function isPoolerUsed({ desired }: ReadonlyResource<'database'>, view: TenantView): boolean {
  const host = sideHost(desired.internal_id, poolerService);
  const has = (values: DeepReadonly<Record<string, Resolved>> | undefined): boolean =>
    Object.values(values ?? {}).some((it) => (typeof it === 'string' ? it === host : it.after.startsWith(`@${host}:`)));
  const applications = view.by('application', 'environment', desired.environment_id);
  const deployments = applications.flatMap(({ meta }) =>
    view.by('assignment', 'workload', meta.id).map((it) => it.desired.version),
  );
  const functions = view.by('function', 'environment', desired.environment_id);
  const versions = functions.flatMap((it) => [it.desired.version_id, it.observed?.active_version_id]);
  return (
    [...new Set(deployments)].some((id) => has(view.get('deployment', id)?.observed?.references)) ||
    versions.some((id) => id !== undefined && has(view.get('function_version', id)?.observed?.references))
  );
}
