import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Action } from './actions.ts';
import { isLive, isMadeAs, isReady, isStable, isUnready, isWanted, restartTokenOf, slotOf } from './slots.ts';
import type { Assignment } from './slots.ts';

/** A version of a workload, as its instances are made from it. */
export interface Version {
  id: string;
  /** Owns the instances: they go with it. */
  owner: ReadonlyResource;
  desired(slot: number, restartToken: string | undefined): DesiredOf<'assignment'>;
}

/** The instances of one service of a workload: those that shall run, and those that there are. */
export interface Rollout {
  run: 'running' | 'stopped';
  replicas: number;
  /**
   * Instances beyond `replicas` that may live while a version replaces another one. With 0 the older instances end
   * before one of the new version starts, as an exclusive mount demands.
   */
  surge: 0 | 1;
  restartToken: string | undefined;
  /** The version to bring up; `undefined`: there is none, and what runs goes on. */
  goal: Version | undefined;
  /** Versions that may serve, now or again. The records of all others are deleted. */
  mayServe: ReadonlySet<string>;
  /** All instances of the service, of any version. */
  slots: readonly Assignment[];
}

/**
 * The writes that bring the instances one step nearer to what shall run. Pure.
 *
 * Never starts more than `replicas + surge` live instances. With a surge it stops a ready instance only when ready
 * successors cover it, and the last ready one of the older version only when one of its successors is stable. Within a
 * version it replaces one ready instance at a time. A stopped service starts nothing.
 *
 * A stopped instance keeps its record while its version may serve again, so that ids and generations are never reused.
 */
export function plan(rollout: Rollout): Action[] {
  const { goal, mayServe, replicas } = rollout;
  const isObsolete = (it: Assignment): boolean => !mayServe.has(it.desired.version);
  const staying = rollout.slots.filter(isStaying);
  if (rollout.run === 'stopped')
    return staying.flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : []));
  if (goal === undefined) return staying.filter(isObsolete).map(retire);

  const own = staying.filter((it) => it.desired.version === goal.id);
  const others = staying.filter((it) => it.desired.version !== goal.id);
  const kept = new Set(rollout.surge === 0 ? [] : needed(rollout, own, others));
  return [
    ...starts(rollout, goal, own),
    ...refreshes(rollout, goal, own),
    ...own.filter((it) => isWanted(it) && slotOf(it) >= replicas).map(stop),
    ...others
      .filter((it) => !kept.has(it))
      .flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : [])),
  ];
}

/** The writes that remove all instances. Pure. */
export function planRemoval(slots: readonly Assignment[]): Action[] {
  return slots.filter(isStaying).map(retire);
}

/**
 * Instances of other versions that stay up: as many as the ready ones of the goal do not yet cover, and the last ready
 * one until one of the goal's is stable.
 */
function needed({ replicas, mayServe }: Rollout, own: readonly Assignment[], others: readonly Assignment[]) {
  const successors = own.filter((it) => slotOf(it) < replicas);
  const candidates = others
    .filter((it) => isWanted(it) && (isReady(it) || mayServe.has(it.desired.version)))
    .toSorted((a, b) => Number(isReady(b)) - Number(isReady(a)) || slotOf(a) - slotOf(b));
  const uncovered = Math.max(0, replicas - successors.filter(isReady).length);
  const [last] = candidates;
  const isLastNeeded = last !== undefined && isReady(last) && !successors.some(isStable);
  return candidates.slice(0, isLastNeeded ? Math.max(1, uncovered) : uncovered);
}

/** Missing or stopped instances of the goal, as many as the surge allows. */
function starts(
  { replicas, surge, restartToken, slots }: Rollout,
  goal: Version,
  own: readonly Assignment[],
): Action[] {
  const budget = Math.max(0, replicas + surge - slots.filter(isLive).length);
  const taken = new Set(
    slots.filter((it) => it.desired.version === goal.id && (isWanted(it) || !isStaying(it))).map(slotOf),
  );
  // An instance of the goal that is still stopping is live already: starting it again takes nothing from the budget.
  const stopping = new Set(own.filter((it) => !isWanted(it) && isLive(it)).map(slotOf));
  const missing = Array.from({ length: replicas }, (_, slot) => slot).filter((slot) => !taken.has(slot));
  const free = missing.filter((slot) => stopping.has(slot));
  const fresh = missing.filter((slot) => !stopping.has(slot)).slice(0, budget);
  return [...free, ...fresh].map((slot) => ensure(goal, slot, restartToken));
}

/**
 * Brings the records of running instances up to date. What a running container follows is written at once. What needs a
 * new container, which is a restart or other mounts, goes from one ready instance to the next: after a restart the next
 * one waits until it is ready, and with other mounts until it is stable, as those can make it exit. An instance whose
 * last report is older than its record may be ready, and waits; one that is known not to be ready does not.
 */
function refreshes({ replicas, restartToken }: Rollout, goal: Version, own: readonly Assignment[]): Action[] {
  const running = own
    .filter((it) => isWanted(it) && slotOf(it) < replicas)
    .map((it) => ({ it, renewal: ensure(goal, slotOf(it), restartToken) }))
    .map(({ it, renewal }) => ({ it, renewal, isAltered: !isMadeAs(it, renewal.desired) }));
  let mayInterrupt = true;
  return running.flatMap(({ it, renewal, isAltered }) => {
    if (!isAltered && restartTokenOf(it) === restartToken) return renewal;
    const doOthersServe = running.every(
      (other) => other.it === it || (isAltered && !other.isAltered ? isStable(other.it) : isReady(other.it)),
    );
    const isNext = isReady(it) && doOthersServe && mayInterrupt;
    if (isNext) mayInterrupt = false;
    if (isNext || isUnready(it)) return renewal;
    return isAltered ? [] : ensure(goal, slotOf(it), restartTokenOf(it));
  });
}

function ensure(goal: Version, slot: number, restartToken: string | undefined): Extract<Action, { do: 'ensure' }> {
  const desired = goal.desired(slot, restartToken);
  return { do: 'ensure', id: assignmentId.slot(goal.id, slot, desired.service), desired, owner: goal.owner };
}

function stop(it: Assignment): Action {
  return { do: 'stop', id: it.meta.id };
}

function retire(it: Assignment): Action {
  return { do: 'retire', id: it.meta.id };
}
