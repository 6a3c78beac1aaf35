import { isWriting } from '../../store/kinds/composed-service.ts';
import { releaseOf } from '../../store/kinds/release-settings.ts';
import { isStaying } from '../../store/resource.ts';
import { plan as planRollout, planRemoval } from '../rollout/plan.ts';
import type { Action } from '../rollout/actions.ts';
import { uncopied } from '../rollout/mounted.ts';
import { isOf, mayStart, servicesOf } from '../rollout/services.ts';
import type { Service } from '../rollout/services.ts';
import { isWanted } from '../rollout/slots.ts';
import { planVolumes } from './composed.ts';
import { instanceDesired } from './instance.ts';
import type { Deployment, World } from './world.ts';
import { isActive, isKeptStopped, rollingOut } from './world.ts';

/**
 * The writes that bring the instances one step nearer to the application. Pure. A deployment that ended without success
 * gets no new instance; the last success, or a target that has not ended, may serve. A last success that was stopped
 * before the target was asked for is not started for it.
 */
export function plan(world: World): Action[] {
  const { app, server, serving, target, slots } = world;
  if (!isStaying(app)) return [...planRemoval(slots), ...planVolumes(world)];
  if (server === undefined) return [];
  // an instance would begin with an empty folder; those without the mount go on meanwhile
  if (app.desired.run === 'running' && uncopied(world.mounted) !== undefined) return [];
  const goal = rollingOut(world) ?? (isKeptStopped(world) ? undefined : serving);
  const mayServe = [serving, target !== undefined && isActive(target) ? target : undefined].flatMap((it) =>
    it === undefined ? [] : servicesOf(app, it),
  );
  const services = goal === undefined ? [] : servicesOf(app, goal);
  const names = new Set([...services.map(({ name }) => name), ...slots.map(({ desired }) => desired.service)]);
  return [
    ...planVolumes(world),
    ...[...names].flatMap((name) =>
      planService(world, {
        name,
        goal,
        services,
        mayServe: mayServe.filter((it) => it.name === name),
      }),
    ),
  ];
}

interface Part {
  name: string;
  goal: Deployment | undefined;
  /** All services of the goal. */
  services: readonly Service[];
  /** Versions of this service that may serve, now or again. */
  mayServe: readonly Service[];
}

function planService(world: World, { name, goal, services, mayServe }: Part): Action[] {
  const { app, server, serving } = world;
  const slots = world.slots.filter(({ desired }) => desired.service === name);
  const service = services.find((it) => it.name === name);
  const isRunning = app.desired.run === 'running';
  // one that the new deployment does not have goes on until that one serves
  if (isRunning && service === undefined && goal !== undefined && goal !== serving) return [];
  if (isRunning && service !== undefined && isHeld(service, services, world)) return [];
  const { composed } = service ?? {};
  const isExclusive =
    composed === undefined ? app.desired.mounts.some((mount) => !mount.read_only) : isWriting(composed);
  return planRollout({
    run: app.desired.run,
    replicas: service?.replicas ?? 0,
    surge: isExclusive ? 0 : releaseOf(app.desired).maxSurge,
    exclusive: isExclusive,
    restartToken: service?.restartToken,
    goal:
      goal === undefined
        ? undefined
        : {
            id: service?.version ?? goal.meta.id,
            // instances of a service that does not change go on when the deployment that brought them is gone
            owner: composed === undefined ? goal : app,
            desired: (slot, restartToken) =>
              instanceDesired({
                app,
                deployment: goal,
                server,
                service: service ?? { name, version: goal.meta.id, replicas: 0, restartToken },
                slot,
                restartToken,
              }),
          },
    mayServe: new Set(mayServe.map(({ version }) => version)),
    slots,
  });
}

/** Whether the first instance of a service waits for other services. What ran before goes on meanwhile. */
function isHeld(service: Service, services: readonly Service[], { slots }: World): boolean {
  const hasBegun = slots.some((it) => isOf(it, service) && isWanted(it));
  return !hasBegun && !mayStart(service, { services, slots });
}
