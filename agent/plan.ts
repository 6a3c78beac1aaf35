import type { Tombstone } from './desired.ts';
import { containerName } from './ledger.ts';
import type { Memory, Now, ServiceItem } from './memory.ts';
import { isCrashLoop, settingsOf } from './memory.ts';
import type { Actual } from './observer.ts';
import { labels } from './runtime/runtime.ts';

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
 * replaced runs on until the image and the network of its successor are here.
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
    return held(world) ?? prepare(world) ?? retireFirst(world, surplus, grace) ?? createAfterBackoff(world, desired);
  }
  return retireFirst(world, surplus, grace) ?? advance(world, desired, keep);
}

/** The container that stands for the assignment: of those as desired, the one that bears its name. */
export function keeper(world: Pick<World, 'desired' | 'actual' | 'memory'>): Actual | undefined {
  const { desired } = world;
  if (desired === undefined || desired.run === 'stopped') return undefined;
  return world.actual.find((it) => driftOf(desired, it, world.memory) === undefined);
}

/** Why a container cannot stand for the assignment. */
export function driftOf(desired: ServiceItem, actual: Actual, memory: Memory): string | undefined {
  const { container, detail } = actual;
  const { spec } = desired;
  if (actual.origin === 'named') return 'made by somebody else';
  if (container.name !== containerName(spec.alias, desired.id)) return 'name';
  if (container.labels[labels.specHash] !== desired.spec_hash) return 'spec';
  if ((container.labels[labels.restartToken] ?? '') !== (spec.restart_token ?? '')) return 'restart';
  if (container.state === 'dead') return 'dead';
  if (container.id === memory.unstartable && container.state !== 'running') return 'unstartable';
  const { image, baseline } = memory;
  const pinned = spec.image_digest;
  if (pinned !== undefined && image?.of === imageKey(desired) && image.id !== container.imageId) return 'image';
  if (detail === undefined) return undefined;
  if (baseline?.container === container.id && baseline.settings !== settingsOf(detail)) return 'settings';
  if (!(baseline?.container === container.id && baseline.own) && !madeAsDesired(desired, actual)) return 'settings';
  if (container.state === 'running' && !(spec.network in detail.addresses)) return 'network';
  return undefined;
}

/** What an image was resolved for: it need not be resolved again while this stays. */
export function imageKey(desired: ServiceItem): string {
  return `${desired.spec_hash} ${desired.spec.image_digest ?? ''}`;
}

function madeAsDesired({ spec }: ServiceItem, { detail }: Actual): boolean {
  if (detail === undefined) return true;
  const env = new Set(detail.env);
  return (
    Object.entries(spec.env).every(([key, value]) => env.has(`${key}=${value}`)) &&
    (spec.command === undefined || JSON.stringify(spec.command) === JSON.stringify(detail.command)) &&
    (spec.memory_bytes ?? 0) === detail.memoryBytes &&
    (spec.nano_cpus ?? 0) === detail.nanoCpus
  );
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

function createAfterBackoff({ memory, now }: World, desired: ServiceItem): Action {
  if (memory.startNotBefore > now.monotonic) return { do: 'wait', until: memory.startNotBefore };
  return { do: 'create', name: containerName(desired.spec.alias, desired.id) };
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
  const { policy } = world.memory;
  // A service that is to stay down must not be brought back by the engine, should the agent die in between.
  if (policy?.container !== id || policy.restart !== 'no') return { do: 'setRestart', id, restart: 'no' };
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
    case 'running': {
      if (wantsImage) return { do: 'resolveImage' };
      const wanted = desired.spec.restart_policy === 'always' && !isCrashLoop(memory) ? 'unless-stopped' : 'no';
      const known = memory.policy?.container === id ? memory.policy.restart : undefined;
      if (!world.ready || known === wanted) return undefined;
      return { do: 'setRestart', id, restart: wanted };
    }
    case 'restarting':
      // The engine retries without end and ever faster than we would.
      return memory.quickExits >= 2 ? takeOver(memory, id) : undefined;
    default:
      if (isFinished(desired, memory)) return undefined;
      if (memory.quickExits >= 2 && !(memory.policy?.container === id && memory.policy.restart === 'no'))
        return { do: 'setRestart', id, restart: 'no' };
      return memory.startNotBefore > now.monotonic ? { do: 'wait', until: memory.startNotBefore } : { do: 'start', id };
  }
}

function takeOver(memory: Memory, id: string): Action {
  if (memory.policy?.container !== id || memory.policy.restart !== 'no') return { do: 'setRestart', id, restart: 'no' };
  return { do: 'stop', id, graceSeconds: 0 };
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
