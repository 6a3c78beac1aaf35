import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireLastExit, WireNote, WirePhase, WireReport } from '../../agent-protocol/assignment.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { imageKey } from './drift.ts';
import { memoryLimit } from './memory-limit.ts';
import { isCrashLoop, isShort } from './memory.ts';
import type { Exit } from './memory.ts';
import type { World } from './plan.ts';
import { isFinished, keeper } from './plan.ts';
import { anonymousVolumes } from '../runtime/anonymous.ts';
import { unstarted } from '../runtime/first-process.ts';
import { remedyOf } from '../runtime/start-remedies.ts';
import type { ProxyProblem } from '../ingress/server-ingress.ts';
import type { PortProblem } from '../ports/port-publisher.ts';
import type { Health } from './readiness.ts';

export interface Circumstances {
  world: World;
  health: Health;
  /** Its published ports lead to it, or it has no published port. */
  published: boolean;
  portProblem: PortProblem | ProxyProblem | undefined;
  /** Where its process listens, if that is not where it is to. */
  listening: WireNote | undefined;
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
  const ended = lastExit(it);
  if (desired === undefined)
    return actual.length === 0 ? { ...none, phase: 'stopped', gone: true } : { ...none, ...stopping(world) };
  if (desired.run === 'stopped')
    return { ...none, ...ended, ...(actual.length === 0 ? { phase: 'stopped' } : stopping(world)) };
  const keep = keeper(world);
  const running = keep?.container.state === 'running';
  const ready = running && health.ready && it.published;
  const error = errorOf(it, ready);
  return {
    ...none,
    ...ended,
    phase: phaseOf(world),
    ready,
    stable: ready && health.stable,
    restarts: quantised(memory.restarts),
    crash_loop: isCrashLoop(memory, world.now.monotonic),
    ...(memory.kills === undefined ? {} : { memory_kills: quantised(memory.kills.count) }),
    ...outputOf(it),
    ...notesOf(it),
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

/** How its process ended last, also while it runs again. */
function lastExit({ world, lastLines }: Circumstances): Pick<WireReport, 'exit_code' | 'last_exit'> {
  const { exit } = world.memory;
  if (exit === undefined) return {};
  const { code, outOfMemory } = exit;
  const last: WireLastExit = {
    ...(code !== undefined && { code }),
    ...(outOfMemory && { out_of_memory: true }),
    ...(lastLines !== '' && { lines: lastLines }),
  };
  return { ...(code !== undefined && { exit_code: code }), last_exit: last };
}

/** What a process that keeps exiting wrote. */
function outputOf({ world: { memory, now }, lastOutput }: Circumstances): Pick<WireReport, 'last_output'> {
  return isCrashLoop(memory, now.monotonic) && lastOutput !== '' ? { last_output: lastOutput } : {};
}

/** What its users are to know for as long as it is so. */
function notesOf({ world, health, listening }: Circumstances): Pick<WireReport, 'notes'> {
  const { memory, desired, now } = world;
  const notes: WireNote[] = listening === undefined ? [] : [listening];
  if (health.seen !== undefined) notes.push({ type: 'HealthCheck', reason: 'Failing', message: health.seen });
  if (isShort(memory, now.monotonic)) {
    const message = `Processes of an instance were killed as it used more memory than ${memoryLimit(desired)}`;
    notes.push({ type: 'MemoryKills', reason: 'OutOfMemory', message });
  }
  notes.push(...imageNotes(world));
  return notes.length === 0 ? {} : { notes };
}

/** Most ports and paths of an image that are named. */
const namedOfImage = 3;

/** What its image has that nothing is set for: a port, and data that goes with the container. */
function imageNotes(world: World): WireNote[] {
  const { desired } = world;
  if (desired === undefined || desired.workload_kind !== 'application') return [];
  const notes: WireNote[] = [];
  const isComposed = desired.service !== mainService;
  const detail = keeper(world)?.detail;
  const [first] = (detail?.exposed ?? []).toSorted((a, b) => a - b);
  if (first !== undefined && desired.spec.ports.length === 0 && !isComposed) {
    const message = `Its image has a program that listens on port ${first} by its own account, and no request reaches it: set exposed_port to ${first} if it is to serve`;
    notes.push({ type: 'PortNotSet', reason: 'ImageExposesPort', message });
  }
  const paths = detail === undefined ? [] : anonymousVolumes(detail).map(({ path }) => path);
  if (paths.length > 0) notes.push(dataNote(paths.slice(0, namedOfImage), isComposed));
  return notes;
}

function dataNote(paths: readonly string[], isComposed: boolean): WireNote {
  const remedy = isComposed
    ? `name a volume for ${paths[0]} in the compose file`
    : `setpoint create volume NAME, then setpoint bind NAME APPLICATION ${paths[0]}`;
  const message = `What it writes to ${paths.join(', ')} is gone with its next container, as a restart makes one: ${remedy}`;
  return { type: 'DataNotKept', reason: 'VolumeOfImage', message };
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
  // that a port is not answered has its cause in the process
  if (it.portProblem?.code === 'runtime_unavailable' && it.listening !== undefined)
    return { code: 'unhealthy', message: it.listening.message };
  if (it.portProblem !== undefined) return { ...it.portProblem };
  if (ready) return undefined;
  if (!it.world.mayWrite) return { code: 'volume_in_use', message: othersVolume };
  const { exit } = memory;
  const finishedWell = desired !== undefined && isFinished(desired, memory) && exit?.code === 0;
  if (exit !== undefined && memory.exits > 0 && !finishedWell) return exitError(exit, it);
  const problems = [it.health.problem, it.listening?.message].filter((one) => one !== undefined);
  return it.health.problem === undefined ? undefined : { code: 'unhealthy', message: problems.join('. ') };
}

function exitError({ code, outOfMemory }: Exit, { world, lastLines }: Circumstances): WireReport['error'] {
  if (outOfMemory) {
    const message = `The process was killed as it used more memory than ${memoryLimit(world.desired)}`;
    return { code: 'out_of_memory', message };
  }
  const refused = unstarted(lastLines);
  if (refused !== undefined) {
    const remedy = remedyOf(refused);
    const why = remedy === undefined ? refused : `${refused}: ${remedy}`;
    return { code: 'create_failed', message: `Cannot start the container: ${why}` };
  }
  const how = code === undefined ? 'The process exited' : `The process exited with code ${code}`;
  return { code: 'exited', message: lastLines === '' ? `${how} and wrote nothing` : `${how}: ${lastLines}` };
}

/**
 * Failures that are reported only once they are final: before, they would fail a deployment that a retry can complete. A
 * volume may be made in the same moment as the container that mounts it.
 */
const passing: readonly FailureCode[] = ['create_failed', 'data_lost'];

const othersVolume =
  'Another instance writes to a volume that this one mounts: this one starts once the other has ended';

function quantised(restarts: number): number {
  return restarts < 10 ? restarts : restarts - (restarts % 10);
}
