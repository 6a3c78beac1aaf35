import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';

type Deployment = ReadonlyResource<'deployment'>;

/**
 * The deployment that serves, or served last: the newest success of an application, which is what its instances are
 * brought to, and what a failed rollout returns to. Who sees a deployment succeed sees in the same revision that it
 * serves, before any controller has followed.
 */
export function servingDeployment(view: TenantView, applicationId: string): Deployment | undefined {
  return successes(view, applicationId)[0];
}

/** The deployments of an application that have succeeded, newest first. */
export function successes(view: TenantView, applicationId: string): Deployment[] {
  return view
    .by('deployment', 'application', applicationId)
    .filter(isSuccess)
    .sort((a, b) => b.desired.number - a.desired.number);
}

/** Instances may be brought to it. */
export function isSuccess({ observed, meta }: Deployment): boolean {
  return observed?.phase === 'succeeded' && meta.deletionRequestedAt === undefined;
}
