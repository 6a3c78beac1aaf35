import type { TenantView } from './mirror.ts';
import { isDeleting } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';
import { servingDeployment } from './serving.ts';

/** An application, a database or a function as it is, or as it will become, that is to have a port of its server. */
export interface WantedPort {
  /** Absent: it is about to be created. */
  id?: string;
  projectId: string;
  serverId: string;
  port: number | undefined;
}

type Workload = ReadonlyResource<'application' | 'database' | 'function'>;

/** Which other workload has the port, in words; `undefined`: none has it. */
export function portOwner(view: TenantView, { id, projectId, serverId, port }: WantedPort): string | undefined {
  if (port === undefined) return undefined;
  const owner = (['application', 'database', 'function'] as const)
    .flatMap((kind): readonly Workload[] => view.by(kind, 'server', serverId))
    .find((other) => other.meta.id !== id && isOwner(other, port));
  if (owner === undefined) return undefined;
  const { kind } = owner.meta;
  return owner.desired.project_id === projectId ? `the ${kind} ${owner.desired.name}` : `another ${kind}`;
}

/** Whether the workload already serves with the port. */
export function isPortHeld(view: TenantView, { id, port }: WantedPort): boolean {
  if (id === undefined) return false;
  const other = view.get('database', id) ?? view.get('function', id);
  if (other !== undefined) return port !== undefined && isOwner(other, port);
  if (view.get('application', id)?.desired.run !== 'running') return false;
  return servingDeployment(view, id)?.desired.config.exposed_port === port;
}

/** A port belongs to the workload that is set to run with it, until it is stopped or takes another port. */
function isOwner(it: Workload, port: number): boolean {
  return it.desired.run === 'running' && portOf(it) === port && !isDeleting(it);
}

function portOf({ desired }: Workload): number | undefined {
  return 'exposed_port' in desired
    ? desired.exposed_port
    : 'source' in desired
      ? desired.config.exposed_port
      : undefined;
}
