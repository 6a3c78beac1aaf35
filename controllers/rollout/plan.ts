import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Action } from './actions.ts';
import {
  hasImage,
  isDone,
  isDraining,
  isLive,
  isMadeAs,
  isReady,
  isStable,
  isUnready,
  isWanted,
  restartTokenOf,
  slotOf,
} from './slots.ts';
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
   * Instances beyond `replicas` that may live while others take their place. With 0 the older instances end before one
   * of the new version starts.
   */
  surge: number;
  /**
   * The instances write to a volume, so that their agent runs one at a time. Those of the new version are assigned beside
   * the older ones, which end once the images of these are on the server. There is no surge then.
   */
  exclusive: boolean;
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
 * Never starts more than `replicas + surge` live instances, of any version, and of the goal alone where they are exclusive. Those that only end their open connections do not count as
 * long as they are at most `replicas`, unless there is no surge. With a surge it stops or replaces a ready instance only
 * while as many ready ones as `replicas` remain: one of an older version when a successor is stable, one of the goal when
 * another one beyond `replicas` covers it meanwhile. A stopped service starts nothing.
 *
 * A stopped instance keeps its record while its version may serve again, so that ids and generations are never reused.
 */
export function plan(rollout: Rollout): Action[] {
  const { goal, mayServe } = rollout;
  const isObsolete = (it: Assignment): boolean => !mayServe.has(it.desired.version);
  const staying = rollout.slots.filter(isStaying);
  if (rollout.run === 'stopped')
    return staying.flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : []));
  if (goal === undefined) return staying.filter(isObsolete).map(retire);

  const own = staying.filter((it) => it.desired.version === goal.id);
  const others = staying.filter((it) => it.desired.version !== goal.id);
  const older = rollout.exclusive
    ? unprepared(rollout, own, others)
    : rollout.surge === 0
      ? []
      : needed(rollout, own, others);
  const renewals = renewalsOf(rollout, goal, own);
  const { kept, lacking } = coversOf(rollout, own, renewals);
  const goes = (it: Assignment): boolean => !older.includes(it) && !kept.includes(it);
  return [
    ...starts(rollout, goal, own, lacking),
    ...refreshes(rollout, goal, renewals, [...kept, ...older]),
    ...own.filter((it) => isWanted(it) && slotOf(it) >= rollout.replicas && goes(it)).map(stop),
    ...others.filter(goes).flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : [])),
  ];
}

/** The writes that remove all instances. Pure. */
export function planRemoval(slots: readonly Assignment[]): Action[] {
  return slots.filter(isStaying).map(retire);
}

/**
 * Instances of other versions that stay up: ready ones as long as fewer of the goal have proven to be stable, and others
 * that may serve as long as fewer are ready in all.
 */
function needed({ replicas, mayServe }: Rollout, own: readonly Assignment[], others: readonly Assignment[]) {
  const successors = own.filter((it) => slotOf(it) < replicas);
  const candidates = others
    .filter((it) => isWanted(it) && (isReady(it) || mayServe.has(it.desired.version)))
    .toSorted((a, b) => slotOf(a) - slotOf(b));
  const unproven = Math.max(0, replicas - successors.filter(isStable).length);
  const uncovered = Math.max(0, replicas - successors.filter(isReady).length);
  const serving = candidates.filter(isReady).slice(0, unproven);
  const hopeful = candidates.filter((it) => !isReady(it)).slice(0, Math.max(0, uncovered - serving.length));
  return [...serving, ...hopeful];
}

/** Instances of other versions that stay up, as their successors have no image yet, and may never have one. */
function unprepared({ replicas, mayServe }: Rollout, own: readonly Assignment[], others: readonly Assignment[]) {
  const successors = own.filter((it) => isWanted(it) && slotOf(it) < replicas);
  if (replicas === 0 || (successors.length === replicas && successors.every(hasImage))) return [];
  return others.filter((it) => isWanted(it) && (isReady(it) || mayServe.has(it.desired.version)));
}

/** A running instance of the goal with its record brought up to date. */
interface Renewal {
  it: Assignment;
  renewal: Extract<Action, { do: 'ensure' }>;
  /** It needs a new container for other settings. */
  isAltered: boolean;
  /** It needs a new container. */
  isOutdated: boolean;
}

function renewalsOf({ replicas, restartToken }: Rollout, goal: Version, own: readonly Assignment[]): Renewal[] {
  return own
    .filter((it) => isWanted(it) && slotOf(it) < replicas)
    .map((it) => {
      const renewal = ensure(goal, slotOf(it), restartToken);
      const isAltered = !isMadeAs(it, renewal.desired);
      return { it, renewal, isAltered, isOutdated: isAltered || restartTokenOf(it) !== restartToken };
    });
}

/**
 * Instances of the goal beyond `replicas`: those that stay, and how many are missing. They cover the ones that get a new
 * container, and those within `replicas` that are not ready yet.
 */
function coversOf({ replicas, surge }: Rollout, own: readonly Assignment[], renewals: readonly Renewal[]) {
  const served = renewals.filter(({ it, isOutdated }) => isOutdated && !isUnready(it) && !isDone(it));
  const wanted = Math.min(surge, served.length);
  const present = own
    .filter((it) => isWanted(it) && slotOf(it) >= replicas)
    .toSorted((a, b) => Number(isReady(b)) - Number(isReady(a)) || slotOf(a) - slotOf(b));
  const unready = Math.max(0, replicas - renewals.filter(({ it }) => isReady(it)).length);
  const covering = Math.min(surge, unready, present.filter(isReady).length);
  const kept = present.slice(0, Math.max(wanted, covering));
  return { kept, lacking: Math.max(0, wanted - kept.length) };
}

/** Missing or stopped instances of the goal, and `covers` beyond them, as many as the surge allows. */
function starts(
  { replicas, surge, exclusive, restartToken, slots }: Rollout,
  goal: Version,
  own: readonly Assignment[],
  covers: number,
): Action[] {
  // one that waits for the volume of another one does not live beside it
  const live = slots.filter((it) => isLive(it) && !(exclusive && it.desired.version !== goal.id));
  const serving = surge === 0 ? live : live.filter((it) => !isDraining(it));
  const budget = Math.max(0, Math.min(replicas + surge - serving.length, 2 * replicas + surge - live.length));
  const taken = new Set(
    slots.filter((it) => it.desired.version === goal.id && (isWanted(it) || !isStaying(it))).map(slotOf),
  );
  // An instance of the goal that is still stopping is live already: starting it again takes nothing from the budget.
  const stopping = new Set(own.filter((it) => !isWanted(it) && isLive(it) && !isDraining(it)).map(slotOf));
  const missing = Array.from({ length: replicas }, (_, slot) => slot).filter((slot) => !taken.has(slot));
  const beyond = Array.from({ length: surge + taken.size }, (_, index) => replicas + index).filter(
    (slot) => !taken.has(slot) && !stopping.has(slot),
  );
  const free = missing.filter((slot) => stopping.has(slot));
  const fresh = missing.filter((slot) => !stopping.has(slot)).concat(beyond.slice(0, covers));
  return [...free, ...fresh.slice(0, budget)].map((slot) => ensure(goal, slot, restartToken));
}

/**
 * Brings the records of running instances up to date. What a running container follows is written at once. A new
 * container, which a restart or other settings need, is made while as many others as `replicas` are ready, and with
 * other settings have stayed so, as those can make it exit. Without a surge it is made one after the other. An instance
 * whose last report is older than its record may be ready, and waits; one that is known not to be ready, or whose process
 * has come to its end, does not.
 *
 * @param beside instances that serve beside these
 */
function refreshes(
  { replicas, surge }: Pick<Rollout, 'replicas' | 'surge'>,
  goal: Version,
  renewals: readonly Renewal[],
  beside: readonly Assignment[],
): Action[] {
  const isCovering = (other: Renewal, isAltered: boolean): boolean =>
    isAltered && !other.isAltered ? isStable(other.it) : isReady(other.it);
  let interrupted = 0;
  return renewals.flatMap((one) => {
    const { it, renewal, isAltered, isOutdated } = one;
    if (!isOutdated) return renewal;
    const others = renewals.filter((other) => other !== one && isCovering(other, isAltered)).length;
    const covers = beside.filter(isAltered ? isStable : isReady).length;
    const mayInterrupt =
      surge === 0 ? others === renewals.length - 1 && interrupted === 0 : others + covers - interrupted >= replicas;
    const isAtRest = isUnready(it) || isDone(it);
    const isNext = isReady(it) && !isAtRest && mayInterrupt;
    if (isNext) interrupted += 1;
    if (isNext || isAtRest) return renewal;
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
