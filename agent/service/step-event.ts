import type { WireEvent } from '../../agent-protocol/assignment.ts';
import type { Drift } from './drift.ts';
import { driftOf } from './drift.ts';
import { memoryLimit } from './memory-limit.ts';
import type { Exit, Memory, ServiceItem } from './memory.ts';
import type { Action, World } from './plan.ts';

export type Event = Omit<WireEvent, 'seq'>;

/** Messages for changes from outside. Other reasons for a replacement come from the desired state or the agent. */
const changes: Partial<Record<Drift, string>> = {
  forged: 'A container made from outside bears the name of this instance and is replaced',
  name: 'The container was renamed from outside and is replaced',
  settings: 'The settings of the container were changed from outside and it is replaced',
  network: 'The container was taken off its network from outside and is replaced',
};

const removed = drift('ContainerRemoved', 'The container was removed from outside and is made again');

/**
 * Returns the event that a step reveals, such as a change from outside; `undefined` if there is none. Pure. `kept` is
 * the container that matched the assignment at the last observation. `reported` has the containers whose change was
 * reported.
 */
export function stepEvent(
  world: World,
  action: Action,
  kept: string | undefined,
  reported: ReadonlySet<string>,
): Event | undefined {
  const { desired, actual, memory } = world;
  if (desired === undefined || action.do === 'wait') return undefined;
  const [first] = actual;
  if (first === undefined) return kept === undefined ? undefined : removed;
  const why = driftOf(desired, first, memory);
  if (why !== undefined) {
    if (reported.has(first.container.id)) return undefined;
    if (why === 'storage') return overflowEvent(memory);
    // The engine is still removing the container.
    if (why === 'dead') return first.container.id === kept ? removed : undefined;
    const text = changes[why];
    return text === undefined ? undefined : drift('ContainerChanged', text);
  }
  if (action.do === 'unpause') return drift('ContainerPaused', 'The container was paused from outside and goes on');
  const isAgain = action.do === 'start' || (action.do === 'remove' && action.again === true);
  return isAgain && first.container.state === 'exited' ? exitEvent(world) : undefined;
}

function overflowEvent({ overflow }: World['memory']): Event | undefined {
  if (overflow === undefined) return undefined;
  const [wrote, limit] = [overflow.bytes, overflow.limit].map((bytes) => `${Math.round(bytes / 1024 ** 2)} MiB`);
  const { volume } = overflow;
  const where = volume === undefined ? 'its container' : `its container, most of it to ${volume}`;
  const remedy =
    volume === undefined
      ? 'Let the application write less, or keep its data elsewhere'
      : `Bind a volume at ${volume} (setpoint bind VOLUME APPLICATION ${volume}), or let the application write less`;
  const message =
    `The instance wrote ${wrote} into ${where}, more than its limit of ${limit}: the container is replaced, and ` +
    `what it wrote is gone. ${remedy}`;
  return { type: 'warning', reason: 'StorageExceeded', message, drift: false };
}

function exitEvent({ memory }: World): Event | undefined {
  // With this policy the engine restarts the container itself, unless a client requested the stop.
  if (memory.policy?.restart === 'unless-stopped')
    return drift('ContainerStopped', 'The container was stopped from outside and is started again');
  const { exit } = memory;
  return exit === undefined || exit.byEngine || exit.code === undefined ? undefined : exited(exit);
}

/** The event of an exit after which the engine itself starts the process again; `undefined` if there was none. */
export function restartEvent(before: Memory, { exit }: Memory): Event | undefined {
  const isKnown = exit?.container === before.exit?.container && exit?.startedAt === before.exit?.startedAt;
  return exit === undefined || isKnown || !exit.byEngine ? undefined : exited(exit);
}

function exited({ code }: Exit): Event {
  const how = code === undefined ? '' : ` with code ${code}`;
  return {
    type: 'warning',
    reason: 'ProcessExited',
    message: `The process exited${how} and is started again`,
    drift: false,
  };
}

/** The event of a process that did not end in its time once it was asked to. */
export function stopEvent(graceSeconds: number, desired: ServiceItem | undefined): Event {
  const signal = desired?.spec.stop_signal ?? 'the signal to stop';
  const remedy =
    desired?.workload_kind === 'database'
      ? ''
      : ': let it end sooner, or set a longer stop_grace_seconds, which is stop_grace_period in a compose file';
  const message = `The process did not end within ${graceSeconds} s of ${signal} and was killed${remedy}`;
  return { type: 'warning', reason: 'KilledAtStop', message, drift: false };
}

/** Kills that come sooner after the one before are no event of their own. */
const killsApartMs = 60_000;

/** The event of a process that was killed for memory, whichever of its container it was; `undefined` if one was just told of. */
export function killEvent(before: Memory, { kills }: Memory, desired: ServiceItem | undefined): Event | undefined {
  if (kills === undefined || kills === before.kills) return undefined;
  const last = before.kills?.container === kills.container ? before.kills : undefined;
  if (last !== undefined && kills.seenAt - last.seenAt < killsApartMs) return undefined;
  const message = `A process was killed as the instance used more memory than ${memoryLimit(desired)}`;
  return { type: 'warning', reason: 'MemoryKill', message, drift: false };
}

function drift(reason: string, message: string): Event {
  return { type: 'warning', reason, message, drift: true };
}
