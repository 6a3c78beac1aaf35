import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { instanceDesired, slotId } from './instance.ts';
import type { Assignment, Deployment, World } from './world.ts';
import { isActive, isLive, isReady, isStable, isWanted, restartTokenOf, rollingOut, slotOf } from './world.ts';
import { isStaying } from '../../store/resource.ts';

export type Action =
  | { do: 'ensure'; id: string; desired: DesiredOf<'assignment'>; deployment: Deployment }
  | { do: 'stop'; id: string }
  | { do: 'retire'; id: string };

/**
 * The writes that bring the instances one step nearer to the application. Pure.
 *
 * Never starts more than `replicas + 1` live instances; stops a ready instance only when ready successors cover it, and
 * the last ready one of the older revision only when one of its successors is stable. A stopped application starts
 * nothing. A deployment that ended without success gets no new instance.
 *
 * A stopped instance keeps its record while its deployment may serve again, so that ids and generations are never
 * reused. Records are deleted only when their deployment can never serve again.
 */
export function plan(world: World): Action[] {
  const { app, server } = world;
  if (!isStaying(app)) return world.slots.filter(isStaying).map(retire);
  if (server === undefined) return [];
  const isObsolete = (it: Assignment): boolean => !mayServe(world, it.desired.version);
  const staying = world.slots.filter(isStaying);
  if (app.desired.run === 'stopped')
    return staying.flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : []));

  const goal = rollingOut(world) ?? world.serving;
  if (goal === undefined) return staying.filter(isObsolete).map(retire);

  const own = staying.filter((it) => it.desired.version === goal.meta.id);
  const others = staying.filter((it) => it.desired.version !== goal.meta.id);
  const kept = new Set(needed(world, own, others));
  return [
    ...starts(world, goal, own),
    ...refreshes(world, goal, own),
    ...own.filter((it) => isWanted(it) && slotOf(it) >= app.desired.replicas).map(stop),
    ...others
      .filter((it) => !kept.has(it))
      .flatMap((it) => (isObsolete(it) ? [retire(it)] : isWanted(it) ? [stop(it)] : [])),
  ];
}

/** Whether a deployment may serve: the last success, or a target that has not ended. */
function mayServe(world: World, deploymentId: string): boolean {
  if (deploymentId === world.serving?.meta.id) return true;
  return deploymentId === world.target?.meta.id && isActive(world.target);
}

/**
 * Instances of other deployments that stay up: as many as the ready ones of the goal do not yet cover, and the last
 * ready one until one of the goal's is stable.
 */
function needed(world: World, own: readonly Assignment[], others: readonly Assignment[]): Assignment[] {
  const { replicas } = world.app.desired;
  const successors = own.filter((it) => slotOf(it) < replicas);
  const candidates = others
    .filter((it) => isWanted(it) && (isReady(it) || mayServe(world, it.desired.version)))
    .toSorted((a, b) => Number(isReady(b)) - Number(isReady(a)) || slotOf(a) - slotOf(b));
  const uncovered = Math.max(0, replicas - successors.filter(isReady).length);
  const [last] = candidates;
  const isLastNeeded = last !== undefined && isReady(last) && !successors.some(isStable);
  return candidates.slice(0, isLastNeeded ? Math.max(1, uncovered) : uncovered);
}

/** Missing or stopped instances of the goal, as many as the surge of one allows. */
function starts(world: World, goal: Deployment, own: readonly Assignment[]): Action[] {
  const { replicas, restart_token: restartToken } = world.app.desired;
  const budget = Math.max(0, replicas + 1 - world.slots.filter(isLive).length);
  const taken = new Set(
    world.slots.filter((it) => it.desired.version === goal.meta.id && (isWanted(it) || !isStaying(it))).map(slotOf),
  );
  // An instance of the goal that is still stopping is live already: starting it again takes nothing from the budget.
  const stopping = new Set(own.filter((it) => !isWanted(it) && isLive(it)).map(slotOf));
  const missing = Array.from({ length: replicas }, (_, slot) => slot).filter((slot) => !taken.has(slot));
  const free = missing.filter((slot) => stopping.has(slot));
  const fresh = missing.filter((slot) => !stopping.has(slot)).slice(0, budget);
  return [...free, ...fresh].map((slot) => ensure(world, goal, slot, restartToken));
}

/** Brings the records of running instances up to date; a restart goes from one ready instance to the next. */
function refreshes(world: World, goal: Deployment, own: readonly Assignment[]): Action[] {
  const { replicas, restart_token: token } = world.app.desired;
  const running = own.filter((it) => isWanted(it) && slotOf(it) < replicas);
  let mayInterrupt = true;
  return running.map((it) => {
    const present = restartTokenOf(it);
    const othersReady = running.every((other) => other === it || isReady(other));
    const restart = present !== token && (!isReady(it) || (othersReady && mayInterrupt));
    if (restart && isReady(it)) mayInterrupt = false;
    return ensure(world, goal, slotOf(it), restart ? token : present);
  });
}

function ensure(world: World, deployment: Deployment, slot: number, restartToken: string | undefined): Action {
  const { app, server } = world;
  return {
    do: 'ensure',
    id: slotId(deployment.meta.id, slot),
    desired: instanceDesired({ app, deployment, server, slot, restartToken }),
    deployment,
  };
}

function stop(it: Assignment): Action {
  return { do: 'stop', id: it.meta.id };
}

function retire(it: Assignment): Action {
  return { do: 'retire', id: it.meta.id };
}
