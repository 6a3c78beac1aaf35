import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WirePhase, WireReport } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { imageKey } from './drift.ts';
import { isCrashLoop } from './memory.ts';
import type { World } from './plan.ts';
import { isFinished, keeper } from './plan.ts';
import type { ProxyProblem } from '../ingress/server-ingress.ts';
import type { PortProblem } from '../ports/port-publisher.ts';
import type { Health } from './readiness.ts';

export interface Circumstances {
  world: World;
  health: Health;
  /** Its published ports lead to it, or it has no published port. */
  published: boolean;
  portProblem: PortProblem | ProxyProblem | undefined;
  /** Last output before the reported exit, in short. */
  lastLines: string;
  /** More of it, for a process that keeps exiting. */
  lastOutput: string;
}

/** Phases of a service in their order. */
const order: readonly WirePhase[] = ['pending', 'preparing', 'starting', 'running', 'stopping', 'stopped'];

/** A phase never goes back within one generation: `restarts` and `ready` report a restart. */
export function laterPhase(before: WirePhase, now: WirePhase): WirePhase {
  const [a, b] = [order.indexOf(before), order.indexOf(now)];
  return a >= 0 && b >= 0 && a > b ? before : now;
}

/** Makes the report of a service. Pure: equal circumstances give an equal report, so that nothing is reported twice. */
export function serviceReport(id: string, it: Circumstances): WireReport {
  const { world, health } = it;
  const { desired, memory, actual } = world;
  const generation = desired?.generation ?? world.tombstone?.generation ?? 0;
  const none = blankReport({ id, generation });
  const exitCode = memory.exit?.code === undefined ? {} : { exit_code: memory.exit.code };
  if (desired === undefined)
    return actual.length === 0 ? { ...none, phase: 'stopped', gone: true } : { ...none, ...stopping(world) };
  if (desired.run === 'stopped')
    return { ...none, ...exitCode, ...(actual.length === 0 ? { phase: 'stopped' } : stopping(world)) };
  const keep = keeper(world);
  const running = keep?.container.state === 'running';
  const ready = running && health.ready && it.published;
  const error = errorOf(it, ready);
  return {
    ...none,
    ...exitCode,
    phase: phaseOf(world),
    ready,
    stable: ready && health.stable,
    restarts: quantised(memory.restarts),
    crash_loop: isCrashLoop(memory),
    ...outputOf(it),
    ...(keep === undefined ? {} : { container_id: keep.container.id }),
    ...(memory.image?.of === imageKey(desired) ? { image_digest: memory.image.digest } : {}),
    ...(memory.run === undefined ? {} : { started_at: memory.run.startedAt }),
    ...(error === undefined ? {} : { error }),
  };
}

/** A container that no port leads to any more is shown as such while its open connections have time to end. */
function stopping({ actual, drains }: World): Pick<WireReport, 'phase' | 'draining'> {
  const isDraining = actual.every(({ container }) => container.state === 'running' && drains.has(container.id));
  return { phase: 'stopping', ...(isDraining && { draining: true }) };
}

/** What a process that keeps exiting wrote. */
function outputOf({ world: { memory }, lastOutput }: Circumstances): Pick<WireReport, 'last_output'> {
  return isCrashLoop(memory) && lastOutput !== '' ? { last_output: lastOutput } : {};
}

function phaseOf(world: World): WirePhase {
  const { desired, memory, actual } = world;
  if (desired === undefined) return 'stopping';
  const keep = keeper(world);
  if (keep?.container.state === 'running' || keep?.container.state === 'paused') return 'running';
  if (keep !== undefined && isFinished(desired, memory)) return memory.exit?.code === 0 ? 'succeeded' : 'failed';
  if (memory.failure?.final === true && actual.length === 0) return 'failed';
  if (keep !== undefined || memory.image?.of === imageKey(desired)) return 'starting';
  return actual.length === 0 && memory.failure === undefined ? 'pending' : 'preparing';
}

function errorOf(it: Circumstances, ready: boolean): WireReport['error'] {
  const { memory, desired } = it.world;
  const { failure } = memory;
  if (failure !== undefined && (failure.final || !passing.includes(failure.code)))
    return { code: failure.code, message: failure.message };
  if (it.portProblem !== undefined) return { ...it.portProblem };
  if (ready) return undefined;
  if (!it.world.mayWrite) return { code: 'volume_in_use', message: othersVolume };
  const { exit } = memory;
  const finishedWell = desired !== undefined && isFinished(desired, memory) && exit?.code === 0;
  if (exit !== undefined && memory.exits > 0 && !finishedWell) {
    if (exit.outOfMemory)
      return {
        code: 'out_of_memory',
        message: `The process was killed as it used more memory than ${limitOf(it.world)}`,
      };
    const code = exit.code === undefined ? 'The process exited' : `The process exited with code ${exit.code}`;
    return { code: 'exited', message: it.lastLines === '' ? `${code} and wrote nothing` : `${code}: ${it.lastLines}` };
  }
  return it.health.problem === undefined ? undefined : { code: 'unhealthy', message: it.health.problem };
}

/**
 * Failures that are reported only once they are final: before, they would fail a deployment that a retry can complete. A
 * volume may be made in the same moment as the container that mounts it.
 */
const passing: readonly FailureCode[] = ['create_failed', 'data_lost'];

const othersVolume =
  'Another instance writes to a volume that this one mounts: this one starts once the other has ended';

function limitOf({ desired }: World): string {
  const bytes = desired?.spec.limits.memory_bytes;
  const limit =
    bytes === undefined
      ? 'the share that an instance without a limit gets'
      : `its limit of ${Math.round(bytes / 1024 / 1024)} MiB`;
  return `${limit}: set a ${bytes === undefined ? '' : 'higher '}memory_limit, or let it use less`;
}

function quantised(restarts: number): number {
  return restarts < 10 ? restarts : restarts - (restarts % 10);
}
