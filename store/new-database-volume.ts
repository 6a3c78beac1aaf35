import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';

/** The desired state of a new volume of a database. */
export function volumeOf(
  id: string,
  { project_id, environment_id, server_id, name }: DeepReadonly<DesiredOf<'database'>>,
): DesiredOf<'volume'> {
  return { project_id, environment_id, server_id, name, database_id: id };
}
