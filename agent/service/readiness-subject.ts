import type { Actual } from '../engine/observer.ts';
import type { World } from './plan.ts';
import type { Subject } from './readiness.ts';

/** Deadline of one health check. */
const probeMs = 5_000;

/** Returns the process whose readiness counts for the service; `undefined` if no desired process runs. Pure. */
export function readinessSubject(world: World): Subject | undefined {
  const { desired, memory, actual } = world;
  const running: Actual | undefined = actual.find((it) => it.container.id === memory.run?.container);
  if (desired === undefined || desired.run === 'stopped' || memory.run === undefined || running === undefined)
    return undefined;
  if (running.container.state !== 'running') return undefined;
  const { health, port } = desired.spec;
  const address = running.detail?.addresses[desired.spec.network] ?? '';
  const target =
    health === undefined || port === undefined
      ? undefined
      : { type: 'http' as const, address, port, path: health.path, timeoutMs: probeMs };
  if (target !== undefined && address === '') return undefined;
  return { key: `${memory.run.container} ${memory.run.startedAt}`, since: memory.run.since, health: target };
}
