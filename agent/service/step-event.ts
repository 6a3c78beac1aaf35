import type { WireEvent } from '../../agent-protocol/assignment.ts';
import type { Drift } from './drift.ts';
import { driftOf } from './drift.ts';
import type { Action, World } from './plan.ts';

type Event = Omit<WireEvent, 'seq'>;

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
  const message =
    `The instance wrote ${wrote} into its container, more than its limit of ${limit}: the container is replaced, and ` +
    'what it wrote is gone. Let the application write less, or keep its data elsewhere';
  return { type: 'warning', reason: 'StorageExceeded', message, drift: false };
}

function exitEvent({ memory }: World): Event | undefined {
  // With this policy the engine restarts the container itself, unless a client requested the stop.
  if (memory.policy?.restart === 'unless-stopped')
    return drift('ContainerStopped', 'The container was stopped from outside and is started again');
  const code = memory.exit?.code;
  if (code === undefined) return undefined;
  const message = `The process exited with code ${code} and is started again`;
  return { type: 'warning', reason: 'ProcessExited', message, drift: false };
}

function drift(reason: string, message: string): Event {
  return { type: 'warning', reason, message, drift: true };
}
