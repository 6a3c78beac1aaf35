import { objectsIn } from '../../store/objects-in.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** What a project that is being deleted still contains. */
export interface Remainder {
  environments: readonly ReadonlyResource<'environment'>[];
  /** What is left and what it waits for, in words for people. It holds no times, so that it stays equal while nothing moves. */
  message: string;
}

/** Names of servers in a message; it holds the number of the others. */
const maxNamed = 3;

/** What is left of a project, as the view shows it. Pure. */
export function remainderOf(projectId: string, view: TenantView): Remainder {
  const environments = view.by('environment', 'project', projectId);
  const content = environments.flatMap(({ meta }) => objectsIn(view, 'environment', meta.id));
  const assignments = view.by('assignment', 'project', projectId);
  const counts = [...Map.groupBy([...environments, ...content, ...assignments], ({ meta }) => meta.kind)].map(
    ([kind, all]) => `${all.length} ${kind}${all.length === 1 ? '' : 's'}`,
  );
  const left = counts.length === 0 ? 'Nothing is left' : `Waits for ${counts.join(', ')} to go`;
  return { environments, message: [left, ...awayOf(assignments, view)].join('; ') };
}

/** Instances end on their servers: those of a server that is away are waited for until it is back or deleted. */
function awayOf(assignments: readonly ReadonlyResource<'assignment'>[], view: TenantView): string[] {
  const away = [...Map.groupBy(assignments, ({ desired }) => desired.server_id)].flatMap(([id, all]) => {
    const server = view.get('server', id);
    return server === undefined || server.observed?.phase === 'active' ? [] : [{ name: server.desired.name, all }];
  });
  if (away.length === 0) return [];
  const count = away.reduce((sum, { all }) => sum + all.length, 0);
  const names = away.slice(0, maxNamed).map(({ name }) => name);
  const more = away.length > maxNamed ? ` and ${away.length - maxNamed} more` : '';
  return [`${count} of the assignments are on servers that are away: ${names.join(', ')}${more}`];
}
