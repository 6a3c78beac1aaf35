import { isStaying } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import { plan as planRollout, planRemoval } from '../rollout/plan.ts';
import { instanceDesired } from './instance.ts';
import { planPooler } from './pooler.ts';
import { dataVolume } from './world.ts';
import type { World } from './world.ts';

/** The writes that bring what runs of a database one step nearer to it. Pure. */
export function plan(world: World): Action[] {
  if (!isStaying(world.database)) return planRemoval([...world.slots, ...world.poolers]);
  return world.server === undefined ? [] : [...planEngine(world), ...planPooler(world)];
}

/**
 * The writes for its engine. There is one instance at a time: it ends before another one begins, and none begins before the
 * volume with the data is there.
 */
function planEngine(world: World): Action[] {
  const { database, slots, volumes } = world;
  const { desired } = database;
  const volume = dataVolume(world);
  const hasBegun = slots.some((it) => it.desired.version === desired.data_volume_id);
  if (desired.run === 'running' && !hasBegun && volume?.observed?.phase !== 'bound') return [];
  return planRollout({
    run: desired.run,
    replicas: 1,
    surge: 0,
    exclusive: false,
    restartToken: desired.restart_token,
    goal: {
      id: desired.data_volume_id,
      owner: database,
      desired: (_, restartToken) => instanceDesired(world, restartToken),
    },
    mayServe: new Set(volumes.filter(isStaying).map(({ meta }) => meta.id)),
    slots,
  });
}
