import { hostNetwork, Probe } from '../../agent-protocol/workload.ts';
import type { Actual } from '../engine/observer.ts';
import type { ServiceItem } from './memory.ts';
import type { ProbeTarget } from '../runtime/probe.ts';
import type { World } from './plan.ts';
import type { Subject } from './readiness.ts';

/** Returns the process whose readiness counts for the service; `undefined` if no desired process runs. Pure. */
export function readinessSubject(world: World): Subject | undefined {
  const { desired, memory, actual } = world;
  const running: Actual | undefined = actual.find((it) => it.container.id === memory.run?.container);
  if (desired === undefined || desired.run === 'stopped' || memory.run === undefined || running === undefined)
    return undefined;
  if (running.container.state !== 'running') return undefined;
  const { networks, min_healthy_seconds } = desired.spec;
  const probe = desired.spec.probe ?? imageCheck(desired, running);
  const isOnHost = networks[0].name === hostNetwork;
  const address = isOnHost ? '127.0.0.1' : (running.detail?.addresses[networks[0].name] ?? '');
  if ((probe?.type === 'http' || probe?.type === 'tcp') && address === '') return undefined;
  return {
    key: `${memory.run.container} ${memory.run.startedAt}`,
    since: memory.run.since,
    stableMs: min_healthy_seconds * 1000,
    check: probe && { target: targetOf(probe, address, running.container.id), times: probe },
  };
}

/** The health check of its image, where that is to decide and the image has one. */
function imageCheck({ spec }: ServiceItem, { detail }: Actual): Probe | undefined {
  return spec.image_check && detail?.health !== undefined ? Probe.parse({ type: 'image' }) : undefined;
}

function targetOf(probe: Probe, address: string, container: string): ProbeTarget {
  const timeoutMs = probe.timeout_seconds * 1000;
  switch (probe.type) {
    case 'http':
      return {
        type: 'http',
        address,
        port: probe.port,
        path: probe.path,
        ...(probe.host !== undefined && { host: probe.host }),
        ...(probe.status !== undefined && { status: probe.status }),
        timeoutMs,
      };
    case 'tcp':
      return { type: 'tcp', address, port: probe.port, timeoutMs };
    case 'command':
      return { type: 'command', container, command: probe.command, timeoutMs };
    case 'image':
      return { type: 'image', container, timeoutMs };
  }
}
