import { allApplications, allTemplateInstances, databasesOf, functionsOf, volumesOf } from '../../frame/collections.ts';
import { useConsole, useList } from '../../frame/context.ts';
import { keptObjects } from '../../frame/store.ts';

interface Contents {
  /** All that goes with it, each as a sentence's part, such as `The database orders with its data`. */
  readonly goes: readonly string[];
  /** Why it is not known what goes; `undefined`: it is. */
  readonly why: string | undefined;
}

/** What goes with a project, or with one environment of it, whatever the page shows of that. */
export function useContents(projectId: string, environmentId?: string): Contents {
  const { store } = useConsole();
  const lists = [
    useList(allTemplateInstances, 'template_instance'),
    useList(allApplications, 'application'),
    useList(databasesOf(projectId), 'database'),
    useList(functionsOf(projectId), 'function'),
    useList(volumesOf(projectId), 'volume'),
  ] as const;
  const [instances, applications, databases, functions, volumes] = lists;
  const own = <T extends { project_id: string; environment_id: string }>(all: readonly T[]): T[] =>
    all.filter(
      (it) => it.project_id === projectId && (environmentId === undefined || it.environment_id === environmentId),
    );
  // with a second environment the same names come twice
  const where = ({ environment_id: id }: { environment_id: string }): string =>
    environmentId === undefined ? ` of ${store.get('environment', id)?.name ?? id}` : '';
  return {
    goes: [
      ...own(instances.objects).map((it) => `The template instance ${it.name}${where(it)}`),
      ...own(applications.objects).map((it) => `The application ${it.name}${where(it)}`),
      ...own(databases.objects).map((it) => `The database ${it.name}${where(it)} with its data`),
      ...own(functions.objects).map((it) => `The function ${it.name}${where(it)}`),
      // that of a database goes as its data
      ...own(volumes.objects.filter((it) => it.database_id === null)).map(
        (it) => `The volume ${it.name}${where(it)} with its data`,
      ),
    ],
    why: whyUnknown(lists),
  };
}

function whyUnknown(lists: readonly Pick<ReturnType<typeof useList>, 'objects' | 'reading'>[]): string | undefined {
  for (const { reading } of lists) {
    if (reading.state === 'failed') return `What goes could not be read (${reading.message}): load the page again`;
    if (reading.state === 'reading') return 'What goes is still being read';
  }
  return lists.some(({ objects }) => objects.length >= keptObjects)
    ? 'There is more than the console shows: delete it by the command line'
    : undefined;
}
