import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { mountedBy } from '../rollout/mounted.ts';
import { isService, slotOf } from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';

export type App = ReadonlyResource<'application'>;
export type Deployment = ReadonlyResource<'deployment'>;

/** Everything that the plan and the phase of an application follow from. */
export interface World {
  app: App;
  /** The deployment that the application points at. */
  target: Deployment | undefined;
  /** The newest deployment that succeeded: what serves, and what a failed rollout returns to. */
  serving: Deployment | undefined;
  /** Service instances of any of its deployments, by slot. */
  slots: readonly Assignment[];
  /** The volumes of its compose files. */
  volumes: readonly Assignment[];
  /** Also absent while it is being deleted: nothing new is assigned to it then. */
  server: ReadonlyResource<'server'> | undefined;
  /** The volumes that it mounts. */
  mounted: readonly ReadonlyResource<'volume'>[];
  /** No instance has been ready for longer than the grace period. */
  unreadyTooLong: boolean;
}

export function readWorld(app: App, view: TenantView): Omit<World, 'unreadyTooLong'> {
  const deployments = view.by('deployment', 'application', app.meta.id).filter(isStaying);
  const assignments = view.by('assignment', 'workload', app.meta.id);
  const server = view.get('server', app.desired.server_id);
  return {
    app,
    target: deployments.find((it) => it.meta.id === app.desired.deployment_id),
    serving: servingDeployment(view, app.meta.id),
    volumes: assignments.filter(({ desired }) => desired.spec.type === 'volume'),
    slots: assignments.filter(isService).toSorted((a, b) => slotOf(a) - slotOf(b)),
    server: isStaying(server) ? server : undefined,
    mounted: mountedBy(app, view),
  };
}

/** Whether the deployment has not ended. */
export function isActive(it: Deployment): boolean {
  return !hasDeploymentEnded(it.observed?.phase);
}

/** The deployment whose instances are being brought up: it has its image and has not ended. */
export function rollingOut(world: Pick<World, 'target'>): Deployment | undefined {
  return world.target?.observed?.phase === 'deploying' ? world.target : undefined;
}

/** Whether what served is to stay stopped, as a person wants it, until what was asked for since serves. */
export function isKeptStopped({ app, serving }: Pick<World, 'app' | 'serving'>): boolean {
  return serving !== undefined && serving.desired.number < (app.desired.starts_from ?? 0);
}
