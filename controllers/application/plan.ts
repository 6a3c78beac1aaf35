import { isStaying } from '../../store/resource.ts';
import { plan as planRollout, planRemoval } from '../rollout/plan.ts';
import type { Action } from '../rollout/actions.ts';
import { uncopied } from '../rollout/mounted.ts';
import { instanceDesired } from './instance.ts';
import type { World } from './world.ts';
import { isActive, rollingOut } from './world.ts';

/**
 * The writes that bring the instances one step nearer to the application. Pure. A deployment that ended without success
 * gets no new instance; the last success, or a target that has not ended, may serve.
 */
export function plan(world: World): Action[] {
  const { app, server, serving, target, slots } = world;
  if (!isStaying(app)) return planRemoval(slots);
  if (server === undefined) return [];
  // an instance would begin with an empty folder; those without the mount go on meanwhile
  if (app.desired.run === 'running' && uncopied(world.mounted) !== undefined) return [];
  const deployment = rollingOut(world) ?? serving;
  const mayServe = [serving, target !== undefined && isActive(target) ? target : undefined];
  return planRollout({
    run: app.desired.run,
    replicas: app.desired.replicas,
    surge: app.desired.mounts.some((mount) => !mount.read_only) ? 0 : 1,
    restartToken: app.desired.restart_token,
    goal: deployment && {
      id: deployment.meta.id,
      owner: deployment,
      desired: (slot, restartToken) => instanceDesired({ app, deployment, server, slot, restartToken }),
    },
    mayServe: new Set(mayServe.flatMap((it) => it?.meta.id ?? [])),
    slots,
  });
}
