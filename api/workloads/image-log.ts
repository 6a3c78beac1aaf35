import type { ReadonlyResource } from '../../store/resource.ts';
import { buildInstancesOf, serviceInstancesOf } from './instance-ids.ts';
import type { LogScope } from './log-query.ts';

/** The lines about how the image of a deployment is made ready: of its build, and of the pulls of its instances. */
export function imageLogOf(it: ReadonlyResource<'deployment'>): LogScope {
  const { desired } = it;
  return {
    workload: desired.application_id,
    instances: [...buildInstancesOf(it), ...serviceInstancesOf(it)],
    streams: ['build', 'system'],
  };
}
