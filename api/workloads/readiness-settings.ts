import { releaseOf } from '../../store/kinds/release-settings.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { badField } from '../ground/api-error.ts';
import type { ApplicationUpdate } from '../resources/application.ts';

type Sent = Pick<ApplicationUpdate, 'healthcheck' | 'healthcheck_path' | 'exposed_port'> &
  Pick<ApplicationUpdate, 'min_healthy_seconds' | 'healthy_deadline'>;

/**
 * Requires that the settings by which instances are found ready do not contradict each other. Only what a request has
 * sent is judged. @throws ApiError BAD_REQUEST
 */
export function requireReadiness({ config, ...desired }: DesiredOf<'application'>, sent: Sent): void {
  const { healthcheck, healthcheck_path, exposed_port } = config;
  if (healthcheck !== undefined && healthcheck_path !== undefined && isAny(sent.healthcheck, sent.healthcheck_path))
    throw badField(
      'healthcheck',
      'contradicts',
      'Cannot have both healthcheck and healthcheck_path, which is short for one by HTTP: set one of them to null',
    );
  const needsPort = healthcheck?.type === 'http' || healthcheck?.type === 'tcp';
  if (
    needsPort &&
    healthcheck.port === undefined &&
    exposed_port === undefined &&
    isAny(sent.healthcheck, sent.exposed_port)
  )
    throw badField('healthcheck.port', 'required', 'healthcheck.port is required where there is no exposed_port');
  const { minHealthySeconds, healthyDeadline } = releaseOf(desired);
  if (minHealthySeconds >= healthyDeadline && isAny(sent.min_healthy_seconds, sent.healthy_deadline))
    throw badField(
      sent.healthy_deadline === undefined ? 'min_healthy_seconds' : 'healthy_deadline',
      'contradicts',
      `healthy_deadline (${healthyDeadline}) must be more than min_healthy_seconds (${minHealthySeconds}): no instance could be healthy in time`,
    );
}

/** Whether one of the fields was sent, also as `null`. */
function isAny(...fields: readonly unknown[]): boolean {
  return fields.some((field) => field !== undefined);
}
