import type { WireEvent } from '../../agent-protocol/assignment.ts';
import { mountedVolumes } from './container-spec.ts';
import { condemn, imageKey } from './drift.ts';
import type { Failure, Memory, Now, ServiceItem } from './memory.ts';
import { blankMemory, remember } from './memory.ts';
import type { Action, World } from './plan.ts';
import { keeper, plan } from './plan.ts';
import { stepEvent } from './step-event.ts';
import type { Actual } from '../engine/observer.ts';

/** What the worker of a service knows between two observations. The functions below return its next value; all are pure. */
export interface ServiceState {
  desired: ServiceItem | undefined;
  memory: Memory;
  /** Containers that no published port leads to any more. */
  withdrawn: ReadonlySet<string>;
  /** Withdrawn containers that may have open connections, with the monotonic time of the withdrawal. */
  drains: ReadonlyMap<string, number>;
  /** Containers whose drift was reported. */
  driftReported: ReadonlySet<string>;
  /** The container that matched the assignment at the last observation. */
  kept: string | undefined;
}

export const initialState: ServiceState = {
  desired: undefined,
  memory: blankMemory,
  withdrawn: new Set(),
  drains: new Map(),
  driftReported: new Set(),
  kept: undefined,
};

export function learn(state: ServiceState, change: Partial<Memory>): ServiceState {
  return { ...state, memory: { ...state.memory, ...change } };
}

/** Sets the desired state. `isSameWork`: it asks for no other work, so that the step under way can go on. */
export function desire(
  state: ServiceState,
  desired: ServiceItem | undefined,
): { state: ServiceState; isSameWork: boolean } {
  const { desired: before, memory } = state;
  const { image, baseline, created, policy, run, restarts, unstartable } = memory;
  if (before === desired) return { state, isSameWork: true };
  if (before !== undefined && desired !== undefined && sameWork(before, desired, image)) {
    const next = { ...state, desired };
    const isFound = image?.of === imageKey(before);
    return { state: isFound ? learn(next, { image: { ...image, of: imageKey(desired) } }) : next, isSameWork: true };
  }
  // A changed desired state forgets earlier failures, also for a container that was to be removed.
  const kept = { ...blankMemory, image, baseline, created, policy, run, restarts, unstartable };
  return { state: { ...state, desired, memory: kept, withdrawn: new Set() }, isSameWork: false };
}

/** From now on, no published port may lead to the container. */
export function withdraw(state: ServiceState, container: string): ServiceState {
  return { ...state, withdrawn: new Set([...state.withdrawn, container]) };
}

/**
 * The open connections of a withdrawn container have time to end from `at` on. A drain that has begun goes on, also
 * where what is desired of the container changes from a stop to a removal.
 */
export function drain(state: ServiceState, container: string, at: number): ServiceState {
  return state.drains.has(container) ? state : { ...state, drains: new Map([...state.drains, [container, at]]) };
}

/** The container has no open connection any more. */
export function drained(state: ServiceState, container: string): ServiceState {
  return { ...state, drains: new Map([...state.drains].map(([id, at]) => [id, id === container ? -Infinity : at])) };
}

/**
 * Whether the container may have been reached through a port: it offered one, or was to end before this process has seen
 * it in use.
 */
export function mayHaveServed(state: ServiceState, hadOffered: boolean): boolean {
  return hadOffered || state.kept === undefined;
}

/** The container is gone. */
export function forget(state: ServiceState, container: string): ServiceState {
  return {
    ...state,
    withdrawn: without(state.withdrawn, container),
    drains: new Map([...state.drains].filter(([id]) => id !== container)),
    driftReported: without(state.driftReported, container),
    kept: state.kept === container ? undefined : state.kept,
  };
}

/** A volume is there: a container that could not be made for the lack of it can be made now. */
export function volumeAppeared(state: ServiceState, volume: string): ServiceState {
  const { desired, memory } = state;
  const isAwaited =
    memory.failure?.code === 'data_lost' &&
    desired !== undefined &&
    mountedVolumes(desired).some(({ volume: mounted }) => mounted === volume);
  return isAwaited ? learn(state, { failure: undefined }) : state;
}

/** A step succeeded: that ends a failure of the same step. */
export function stepDone(state: ServiceState, { do: step }: Action): ServiceState {
  return step === state.memory.failure?.step ? learn(state, { failure: undefined }) : state;
}

/** A step failed. An image that is not there any more is to be resolved again. */
export function stepFailed(state: ServiceState, { do: step }: Action, failure: Failure): ServiceState {
  const isImageLost = (step === 'create' || step === 'start') && failure.code === 'image_not_found';
  return learn(state, { failure, ...(isImageLost && { image: undefined }) });
}

/** Takes in what the engine shows. */
export function observe(state: ServiceState, actual: readonly Actual[], now: Now): ServiceState {
  const { desired, memory } = state;
  const seen = remember(memory, keeper({ desired, actual, memory }) ?? actual[0], now);
  return { ...state, memory: condemn(seen, desired, actual) };
}

/** Returns the next step, and the event that it reveals. Without a step, the one that failed is no longer needed. */
export function decide(
  state: ServiceState,
  world: World,
): { state: ServiceState; action: Action | undefined; event: Omit<WireEvent, 'seq'> | undefined } {
  const keep = keeper(world);
  const [first] = world.actual;
  const next = {
    ...state,
    kept: keep?.container.id ?? (first === undefined ? undefined : state.kept),
    // what is kept after all is drained anew when it has to go
    drains: new Map([...state.drains].filter(([id]) => id !== keep?.container.id)),
  };
  const action = plan(world);
  if (action === undefined) return { state: learn(next, { failure: undefined }), action, event: undefined };
  const event = stepEvent(world, action, state.kept, state.driftReported);
  if (event === undefined || first === undefined || keep !== undefined) return { state: next, action, event };
  const driftReported = new Set([...state.driftReported, first.container.id]);
  return { state: { ...next, driftReported }, action, event };
}

/**
 * True if the change needs no other work, so that the step under way can go on. A change that only names the image
 * which the agent found and reported is the same work.
 */
function sameWork(a: ServiceItem, b: ServiceItem, image: Memory['image']): boolean {
  const found = a.spec.image_digest ?? (image?.of === imageKey(a) ? image.digest : undefined);
  return (
    a.run === b.run &&
    a.spec_hash === b.spec_hash &&
    a.spec.restart_token === b.spec.restart_token &&
    (a.spec.image_digest === b.spec.image_digest || found === b.spec.image_digest)
  );
}

function without(all: ReadonlySet<string>, one: string): ReadonlySet<string> {
  return new Set([...all].filter((it) => it !== one));
}
