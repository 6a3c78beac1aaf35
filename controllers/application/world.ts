import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { upToDate } from '../runtime/up-to-date.ts';

export type App = ReadonlyResource<'application'>;
export type Deployment = ReadonlyResource<'deployment'>;
export type Assignment = ReadonlyResource<'assignment'>;

/** Everything that the plan and the phase of an application follow from. */
export interface World {
  app: App;
  /** The deployment that the application points at. */
  target: Deployment | undefined;
  /** The newest deployment that succeeded: what serves, and what a failed rollout returns to. */
  serving: Deployment | undefined;
  /** Service instances of any of its deployments, by slot. */
  slots: readonly Assignment[];
  /** Also absent while it is being deleted: nothing new is assigned to it then. */
  server: ReadonlyResource<'server'> | undefined;
  /** No instance has been ready for longer than the grace period. */
  unreadyTooLong: boolean;
}

export function readWorld(app: App, view: TenantView): Omit<World, 'unreadyTooLong'> {
  const deployments = view.by('deployment', 'application', app.meta.id).filter(isStaying);
  const server = view.get('server', app.desired.server_id);
  return {
    app,
    target: deployments.find((it) => it.meta.id === app.desired.deployment_id),
    serving: servingDeployment(view, app.meta.id),
    slots: view
      .by('assignment', 'workload', app.meta.id)
      .filter((it) => it.desired.spec.type === 'service')
      .toSorted((a, b) => slotOf(a) - slotOf(b)),
    server: isStaying(server) ? server : undefined,
  };
}

export function slotOf(it: Assignment): number {
  return it.desired.spec.type === 'service' ? it.desired.spec.slot : -1;
}

export function restartTokenOf(it: Assignment): string | undefined {
  return it.desired.spec.type === 'service' ? it.desired.spec.restart_token : undefined;
}

/** Whether the deployment has not ended. */
export function isActive(it: Deployment): boolean {
  return !hasDeploymentEnded(it.observed?.phase);
}

export function isWanted(it: Assignment): boolean {
  return it.desired.run === 'running' && isStaying(it);
}

export function isReady(it: Assignment): boolean {
  return isWanted(it) && upToDate(it)?.ready === true;
}

/** Whether it has stayed ready: an instance that starts well and then fails does not count as a success. */
export function isStable(it: Assignment): boolean {
  return isReady(it) && it.observed?.stable === true;
}

/** Whether the instance may be running: it is desired, or not reported as ended. Without a report it counts as live. */
export function isLive(it: Assignment): boolean {
  const report = upToDate(it);
  if (isWanted(it) || report === undefined) return true;
  return !['stopped', 'failed', 'succeeded'].includes(report.phase);
}

/** The deployment whose instances are being brought up: it has its image and has not ended. */
export function rollingOut(world: Pick<World, 'target'>): Deployment | undefined {
  return world.target?.observed?.phase === 'deploying' ? world.target : undefined;
}
