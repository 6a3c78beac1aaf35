import type { ReadonlyResource } from '../../store/resource.ts';
import type { LogScope } from './log-query.ts';

/** All that a database wrote, and how its image was pulled. */
export function databaseLogOf({ meta }: ReadonlyResource<'database'>): LogScope {
  return { workload: meta.id, streams: ['stdout', 'stderr', 'build', 'system'] };
}
