import type { Upstream } from '../ingress/upstreams.ts';
import type { ServiceItem } from './memory.ts';
import type { World } from './plan.ts';

/** Whether the item is the proxy of the server, which no workload of a user can be. */
export function isProxy({ spec, workload_kind, workload_id }: ServiceItem, server: string): boolean {
  return spec.ingress !== undefined && workload_kind === 'server' && workload_id === server;
}

/**
 * What a service offers to the proxy: the running process if it is ready. Returns `undefined` if nothing is offered. A
 * process that is to be removed stays offered until its withdrawal.
 */
export function upstreamOf({ desired, actual, withdrawn }: World, isReady: boolean): Upstream | undefined {
  if (desired === undefined || !isReady) return undefined;
  const running = actual.find(({ container }) => container.state === 'running' && !withdrawn.has(container.id));
  const address = running?.detail?.addresses[desired.spec.networks[0].name] ?? '';
  if (address === '') return undefined;
  const { workload_id: workload, service, spec } = desired;
  return { workload, service, address, ports: spec.ports.map(({ port }) => port) };
}
