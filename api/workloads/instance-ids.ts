import { mainService } from '../../agent-protocol/workload.ts';
import { maxReplicas } from '../../store/kinds/application.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { buildRole } from '../../store/kinds/composed-service.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The id of the instance that builds a deployment. */
function buildInstanceOf(deploymentId: string): string {
  return assignmentId.task(deploymentId, 'build');
}

/** The ids of all instances that build a deployment: one for each service of its compose file that is built. */
export function buildInstancesOf({
  meta,
  desired: { services = [] },
}: Pick<ReadonlyResource<'deployment'>, 'meta' | 'desired'>): string[] {
  const built = services.filter(({ build }) => build !== undefined);
  return [buildInstanceOf(meta.id), ...built.map(({ name }) => assignmentId.task(meta.id, buildRole(name)))];
}

/** The id of the instance that carries out a command. */
export function runInstanceOf(runId: string): string {
  return assignmentId.task(runId, 'run');
}

/** Every instance id that a deployment can have had, or one service of it: the instances themselves may be gone. */
export function serviceInstancesOf(
  { meta, desired: { services } }: Pick<ReadonlyResource<'deployment'>, 'meta' | 'desired'>,
  service?: string,
): string[] {
  const all = services ?? [{ name: mainService, version: meta.id }];
  return all
    .filter(({ name }) => service === undefined || name === service)
    .flatMap(({ name, version }) =>
      Array.from({ length: maxReplicas }, (_, slot) => assignmentId.slot(version, slot, name)),
    );
}

/** Every instance id that a service of an application can have had in the deployments that are kept. */
export function instancesOfService(view: Pick<TenantView, 'by'>, applicationId: string, service: string): string[] {
  const ids = view
    .by('deployment', 'application', applicationId)
    .flatMap((it) => serviceInstancesOf(it, it.desired.services === undefined ? mainService : service));
  return [...new Set(ids)];
}
