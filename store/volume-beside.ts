import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';

/** Of a name, so that what is added to it fits. */
const mostChars = 60;

/** The desired state of a new volume, with that id, that a backup of another one is restored into. */
export function besideVolume(
  { project_id, environment_id, server_id, name }: DeepReadonly<DesiredOf<'volume'>>,
  id: string,
): DesiredOf<'volume'> {
  return { project_id, environment_id, server_id, name: `${shortened(name)} (restore ${id.slice(0, 8)})` };
}

/** The name of the volume that has the former data since a restore. */
export function formerName(name: string, restore: string): string {
  return `${shortened(name)} (before restore ${restore.slice(0, 8)})`;
}

function shortened(name: string): string {
  return Array.from(name).slice(0, mostChars).join('').trim();
}
