import type { Tombstone } from './desired.ts';
import { driftOf, imageKey } from './drift.ts';
import { containerName } from './ledger.ts';
import type { Memory, Now, ServiceItem } from './memory.ts';
import { isCrashLoop } from './memory.ts';
import type { Actual } from './observer.ts';

/** Everything from which the next step of one service follows. */
export interface World {
  /** Absent: not (or no longer) in the desired set. */
  desired: ServiceItem | undefined;
  /** It was desired, and the control plane took it back. */
  tombstone: Tombstone | undefined;
  /** What is not in the desired set is known not to be wanted, rather than merely unknown. */
  complete: boolean;
  actual: readonly Actual[];
  memory: Memory;
  /** Its network exists, as far as is known. */
  networkReady: boolean;
  /** Passes its health check. */
  ready: boolean;
  /** Containers that no published port leads to any more. */
  withdrawn: ReadonlySet<string>;
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
  /** Published ports stop leading to it. */
  | { do: 'withdraw'; id: string }
  | { do: 'stop'; id: string; graceSeconds: number }
  | { do: 'remove'; id: string }
  /** Nothing before that monotonic time. */
  | { do: 'wait'; until: number };

const defaultGraceSeconds = 10;

/**
 * The next step towards what is desired; `undefined` when there is none. Pure.
 *
 * Never creates a container while another one of the assignment exists; a stopped service gets none; what is not
 * desired is touched only if it was taken back or the desired set is known to be complete. A container that has to be
 * replaced runs on until the configuration, the image and the network of its successor are here.
 */
export function plan(world: World): Action | undefined {
  const { desired, actual } = world;
  if (desired === undefined) {
    if (world.tombstone === undefined && !world.complete) return undefined;
    return retireFirst(world, actual, world.tombstone?.grace_seconds ?? defaultGraceSeconds);
  }
  const grace = desired.spec.grace_seconds;
  if (desired.run === 'stopped') return retireFirst(world, actual, grace);
  const uninspected = actual.find((it) => it.detail === undefined && it.container.state !== 'created');
  if (uninspected !== undefined) return { do: 'inspect', id: uninspected.container.id };
  const keep = keeper(world);
  const surplus = actual.filter((it) => it !== keep);
  if (keep === undefined) {
    // Its configuration is not here: no successor could be made.
    if (desired.spec.env === undefined) return undefined;
    const create: Action = { do: 'create', name: containerName(desired.spec.alias, desired.id) };
    return held(world) ?? prepare(world) ?? retireFirst(world, surplus, grace) ?? create;
  }
  return retireFirst(world, surplus, grace) ?? advance(world, desired, keep);
}

/** The container that stands for the assignment: of those as desired, the one that bears its name. */
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

/** Takes one container after the other away, each out of the ports first so that no request meets a closed one. */
function retireFirst(world: World, containers: readonly Actual[], graceSeconds: number): Action | undefined {
  const [actual] = containers;
  if (actual === undefined) return undefined;
  const { id, state } = actual.container;
  const waiting = held(world);
  if (waiting !== undefined) return waiting;
  if (state === 'created' || state === 'exited' || state === 'dead') return { do: 'remove', id };
  if (!world.withdrawn.has(id)) return { do: 'withdraw', id };
  // A service that is to stay down must not be brought back by the engine, should the agent die in between.
  const holding = holdEngine(world.memory, id);
  if (holding !== undefined) return holding;
  if (state === 'paused') return { do: 'unpause', id };
  return { do: 'stop', id, graceSeconds };
}

/** Brings the container that stands for the assignment into operation, or back into it. */
function advance(world: World, desired: ServiceItem, keep: Actual): Action | undefined {
  const waiting = held(world);
  if (waiting !== undefined) return waiting;
  const { memory, now } = world;
  const { id, state } = keep.container;
  const wantsImage = desired.spec.image_digest !== undefined && memory.image?.of !== imageKey(desired);
  switch (state) {
    case 'created':
      return { do: 'start', id };
    case 'paused':
      return { do: 'unpause', id };
    case 'running':
      return wantsImage ? { do: 'resolveImage' } : keepRunning(world, desired, id);
    case 'restarting':
      // The engine retries without end and ever faster than we would.
      if (memory.quickExits < 2) return undefined;
      return holdEngine(memory, id) ?? { do: 'stop', id, graceSeconds: 0 };
    default:
      if (isFinished(desired, memory)) return undefined;
      return (memory.quickExits >= 2 ? holdEngine(memory, id) : undefined) ?? startAfterBackoff(memory, now, id);
  }
}

/** Once it proved healthy, the engine brings it back by itself: also while the agent is away, and after a reboot. */
function keepRunning({ memory, ready }: World, desired: ServiceItem, id: string): Action | undefined {
  const restart = desired.spec.restart_policy === 'always' && !isCrashLoop(memory) ? 'unless-stopped' : 'no';
  return ready && !hasPolicy(memory, id, restart) ? { do: 'setRestart', id, restart } : undefined;
}

/** From here on it is restarted at our pace. */
function holdEngine(memory: Memory, id: string): Action | undefined {
  return hasPolicy(memory, id, 'no') ? undefined : { do: 'setRestart', id, restart: 'no' };
}

function hasPolicy({ policy }: Memory, id: string, restart: 'no' | 'unless-stopped'): boolean {
  return policy?.container === id && policy.restart === restart;
}

function startAfterBackoff({ startNotBefore }: Memory, now: Now, id: string): Action {
  return startNotBefore > now.monotonic ? { do: 'wait', until: startNotBefore } : { do: 'start', id };
}

/** It exited and its policy lets it be. */
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
