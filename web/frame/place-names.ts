import { allProjects, environmentsOf } from './collections.ts';
import { useConsole, useList } from './context.ts';

interface Placed {
  readonly name: string;
  readonly project_id: string;
  readonly environment_id: string;
}

/** Projects whose environments are read for one list of choices. */
const mostProjects = 20;

/**
 * The project and the environment of each of these, as `shop / staging`: a name is that of one object in its environment
 * alone. The environments are read of projects that have two objects of one name.
 */
export function usePlaceNames<T extends Placed>(objects: readonly T[]): (it: Omit<Placed, 'name'>) => string {
  const { store, collections } = useConsole();
  const projects = useList(allProjects, 'project').objects;
  const names = new Map(projects.map((one) => [one.id, one.display_name ?? one.name]));
  const count = new Map<string, number>();
  const keyOf = (it: Placed): string => `${it.project_id} ${it.name}`;
  for (const it of objects) count.set(keyOf(it), (count.get(keyOf(it)) ?? 0) + 1);
  const unclear = new Set(objects.filter((it) => (count.get(keyOf(it)) ?? 0) > 1).map((it) => it.project_id));
  for (const id of [...unclear].slice(0, mostProjects)) collections.reading(environmentsOf(id));
  return (it) =>
    [names.get(it.project_id), store.get('environment', it.environment_id)?.name]
      .filter((part) => part !== undefined)
      .join(' / ');
}
