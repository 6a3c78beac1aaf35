import { allProjects, environmentsOf } from './collections.ts';
import { useConsole, useList } from './context.ts';

interface Placed {
  readonly name: string;
  readonly project_id: string;
  readonly environment_id: string;
}

/** Projects whose environments are read for one list of choices; all lists of a page are fewer than are kept. */
const mostProjects = 20;

/**
 * The project and the environment of each of these objects, of all kinds of one list of choices, as `shop / staging`: a name is that of one of them in
 * its environment alone. The environments are read of projects that have two of one name; of further ones, ids stand there.
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
  const environmentName = ({ project_id: project, environment_id: id }: Omit<Placed, 'name'>): string | undefined =>
    store.get('environment', id)?.name ?? (unclear.has(project) ? id.slice(0, 8) : undefined);
  return (it) => [names.get(it.project_id), environmentName(it)].filter((part) => part !== undefined).join(' / ');
}
