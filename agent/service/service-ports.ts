import type { Offer } from '../ports/port-claims.ts';
import type { ServiceItem } from './memory.ts';
import type { World } from './plan.ts';

/** The ports of the service that have a port of the server, which is `publish`. */
export function publishedPorts({ spec }: ServiceItem): { port: number; publish: number }[] {
  return spec.ports.flatMap(({ port, publish }) => (publish === undefined ? [] : [{ port, publish }]));
}

/** What a service claims from the moment it is desired, also while it is not known what runs. */
export function portClaims(desired: ServiceItem): Omit<Offer, 'backend'>[] {
  const { workload_id: workload, project_id: project } = desired;
  return publishedPorts(desired).map(({ publish: port }) => ({ workload, project, port }));
}

/**
 * What a service offers to its ports: the running process if it is ready. A process that is to be removed stays offered
 * until its withdrawal. Returns `undefined` if the present offers stay: the service is to stop and still runs.
 */
export function portOffers({ desired, actual, withdrawn }: World, isReady: boolean): Offer[] | undefined {
  const running = actual.find(({ container }) => container.state === 'running' && !withdrawn.has(container.id));
  if (desired === undefined || desired.run === 'stopped') return running === undefined ? [] : undefined;
  const address = running?.detail?.addresses[desired.spec.networks[0].name] ?? '';
  return publishedPorts(desired).map(({ port, publish }) => ({
    workload: desired.workload_id,
    project: desired.project_id,
    port: publish,
    backend: isReady && address !== '' ? { address, port } : undefined,
  }));
}
