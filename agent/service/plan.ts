import type { Tombstone } from '../desired/desired.ts';
import { driftOf, imageKey } from './drift.ts';
import { containerName } from '../engine/ledger.ts';
import type { Memory, Now, ServiceItem } from './memory.ts';
import { isQuickLoop } from './memory.ts';
import type { Actual } from '../engine/observer.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';

/** Everything that determines the next step of one service. */
export interface World {
  /** `undefined`: not, or no longer, in the desired set. */
  desired: ServiceItem | undefined;
  /** Present if the assignment was desired and the control plane removed it. */
  tombstone: Tombstone | undefined;
  /** The desired set is complete: what is not in it is not desired, rather than only unknown. */
  complete: boolean;
  actual: readonly Actual[];
  memory: Memory;
  /** Its network exists, as far as the agent knows. */
  networkReady: boolean;
  /** The service is ready, see `Readiness`. */
  ready: boolean;
  /** No other service writes to its volumes. */
  mayWrite: boolean;
  /** Ports and the proxy follow the instances; before, they lead where an earlier process of the agent led them. */
  isFollowed: boolean;
  /** Containers that no published port leads to any more. */
  withdrawn: ReadonlySet<string>;
  /** Withdrawn containers whose open connections may not have ended, with the monotonic time of the withdrawal. */
  drains: ReadonlyMap<string, number>;
  /** What the engine can, see `Abilities`. */
  can: ContainerRuntime['can'];
  now: Now;
}

export type Action =
  | { do: 'resolveImage' }
  | { do: 'ensureNetwork' }
  | { do: 'create'; name: string }
  | { do: 'start'; id: string }
  | { do: 'unpause'; id: string }
  | { do: 'inspect'; id: string }
  | { do: 'setRestart'; id: string; restart: 'no' | 'unless-stopped' }
  /** Makes published ports stop leading to the container. */
  | { do: 'withdraw'; id: string }
  /** Looks whether connections to the container are open, and waits a moment if so, at most until that monotonic time. */
  | { do: 'drain'; id: string; until: number }
  | { do: 'stop'; id: string; graceSeconds: number }
  /** `again`: only since the engine cannot start it again, so that another one takes its place. */
  | { do: 'remove'; id: string; again?: true }
  /** Does nothing before that monotonic time. */
  | { do: 'wait'; until: number };

/** How a container ends: the most time for its open connections, and then for its process. */
interface Ending {
  grace_seconds: number;
  drain_seconds: number;
}

/** Time between two looks whether ports follow the instances; the worker is woken when they do. */
const followedMs = 1_000;

const defaultEnding: Ending = { grace_seconds: 10, drain_seconds: 0 };

/**
 * Returns the next step towards the desired state; `undefined` when there is none. Pure.
 *
 * Never creates a container while another one of the assignment exists, and none for a stopped service. An assignment
 * that is not desired is touched only if it has a tombstone or the desired set is complete. A container that must be
 * replaced runs on until the configuration, the image and the network of its successor are on the server.
 */
export function plan(world: World): Action | undefined {
  const { desired, actual } = world;
  if (desired === undefined) {
    if (world.tombstone === undefined && !world.complete) return undefined;
    return retireFirst(world, actual, world.tombstone ?? defaultEnding);
  }
  const ending = desired.spec;
  if (desired.run === 'stopped') return retireFirst(world, actual, ending);
  const uninspected = actual.find((it) => it.detail === undefined && it.container.state !== 'created');
  if (uninspected !== undefined) return { do: 'inspect', id: uninspected.container.id };
  const keep = keeper(world);
  const surplus = actual.filter((it) => it !== keep);
  if (keep === undefined) {
    // The configuration is missing: no successor can be made.
    if (desired.spec.configuration === undefined) return undefined;
    const create: Action = { do: 'create', name: containerName(desired) };
    return (
      held(world) ?? prepare(world) ?? retireFirst(world, surplus, ending) ?? (world.mayWrite ? create : undefined)
    );
  }
  return retireFirst(world, surplus, ending) ?? advance(world, desired, keep);
}

/** Returns the container to keep for the assignment: the one without drift. */
export function keeper(world: Pick<World, 'desired' | 'actual' | 'memory'>): Actual | undefined {
  const { desired } = world;
  if (desired === undefined || desired.run === 'stopped') return undefined;
  return world.actual.find((it) => driftOf(desired, it, world.memory) === undefined);
}

function held({ memory, now }: World): Action | undefined {
  const until = memory.failure?.until ?? 0;
  return until > now.monotonic ? { do: 'wait', until } : undefined;
}

function prepare({ desired, memory, networkReady }: World): Action | undefined {
  if (desired === undefined) return undefined;
  if (memory.image?.of !== imageKey(desired)) return { do: 'resolveImage' };
  return networkReady ? undefined : { do: 'ensureNetwork' };
}

/**
 * Returns the next step to remove the first of the containers. Ports stop leading to it first, so that no request meets
 * a stopped container, and then its open connections have time to end. While they lead where an earlier process led
 * them, it is not known whether they lead to it.
 */
function retireFirst(world: World, containers: readonly Actual[], ending: Ending): Action | undefined {
  const [actual] = containers;
  if (actual === undefined) return undefined;
  const { id, state } = actual.container;
  const waiting = held(world);
  if (waiting !== undefined) return waiting;
  if (state === 'created' || state === 'exited' || state === 'dead') return { do: 'remove', id };
  if (!world.isFollowed) return { do: 'wait', until: world.now.monotonic + followedMs };
  if (!world.withdrawn.has(id)) return { do: 'withdraw', id };
  // The engine must not restart a service that is to stay down, if the agent ends before the next step.
  const holding = holdEngine(world, id);
  if (holding !== undefined) return holding;
  if (state === 'paused') return { do: 'unpause', id };
  const until = (world.drains.get(id) ?? Number.NEGATIVE_INFINITY) + ending.drain_seconds * 1000;
  if (state === 'running' && until > world.now.monotonic) return { do: 'drain', id, until };
  return { do: 'stop', id, graceSeconds: ending.grace_seconds };
}

/** Returns the next step that makes the kept container run. */
function advance(world: World, desired: ServiceItem, keep: Actual): Action | undefined {
  const waiting = held(world);
  if (waiting !== undefined) return waiting;
  const { memory } = world;
  const { id, state } = keep.container;
  const wantsImage = desired.spec.image_digest !== undefined && memory.image?.of !== imageKey(desired);
  switch (state) {
    case 'created':
      return world.mayWrite ? { do: 'start', id } : undefined;
    case 'paused':
      return { do: 'unpause', id };
    case 'running':
      return wantsImage ? { do: 'resolveImage' } : keepRunning(world, desired, id);
    case 'restarting':
      // The engine would retry without end, and faster than the agent.
      if (memory.quickExits < 2) return undefined;
      return holdEngine(world, id) ?? { do: 'stop', id, graceSeconds: 0 };
    default:
      if (isFinished(desired, memory) || !world.mayWrite) return undefined;
      return (memory.quickExits >= 2 ? holdEngine(world, id) : undefined) ?? runAgain(world, id);
  }
}

/** Once a service is ready, the engine itself restarts it: also while the agent does not run, and after a reboot. */
function keepRunning({ memory, ready, can }: World, desired: ServiceItem, id: string): Action | undefined {
  const restart = desired.spec.restart_policy === 'always' && !isQuickLoop(memory) ? 'unless-stopped' : 'no';
  return ready && can.hold && !hasPolicy(memory, id, restart) ? { do: 'setRestart', id, restart } : undefined;
}

/** Turns off restarts by the engine: from then on the agent restarts the container, with its own backoff. */
function holdEngine({ memory, can }: World, id: string): Action | undefined {
  return !can.hold || hasPolicy(memory, id, 'no') ? undefined : { do: 'setRestart', id, restart: 'no' };
}

function hasPolicy({ policy }: Memory, id: string, restart: 'no' | 'unless-stopped'): boolean {
  return policy?.container === id && policy.restart === restart;
}

/** Starts the exited container after its backoff; an engine that cannot do that gets another one in its place. */
function runAgain({ memory: { startNotBefore }, now, can }: World, id: string): Action {
  if (startNotBefore > now.monotonic) return { do: 'wait', until: startNotBefore };
  return can.restart ? { do: 'start', id } : { do: 'remove', id, again: true };
}

/** True if the service exited and its restart policy does not start it again. */
export function isFinished(desired: ServiceItem, memory: Memory): boolean {
  if (memory.exit === undefined || memory.run !== undefined) return false;
  switch (desired.spec.restart_policy) {
    case 'always':
      return false;
    case 'on-failure':
      return memory.exit.code === 0;
    case 'no':
      return true;
  }
}
