import type { TenantView } from './mirror.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type Deployment = ReadonlyResource<'deployment'>;

/**
 * The deployment that serves, or served last: the newest success of an application. Its instances converge to it, and a
 * failed rollout returns to it. It changes at the very revision of a success, before any controller has reacted.
 */
export function servingDeployment(view: TenantView, applicationId: string): Deployment | undefined {
  return successes(view, applicationId)[0];
}

/** The deployments of an application that have succeeded, newest first. */
export function successes(view: Pick<TenantView, 'by'>, applicationId: string): Deployment[] {
  return view
    .by('deployment', 'application', applicationId)
    .filter(isSuccess)
    .sort((a, b) => b.desired.number - a.desired.number);
}

/** Whether instances may converge to the deployment. */
export function isSuccess(it: Deployment): boolean {
  return it.observed?.phase === 'succeeded' && isStaying(it);
}
