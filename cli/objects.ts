import type { ApiObject, Client } from './client.ts';

/** Kinds that the verbs know, by their names in the plural, the singular and short. */
const kinds = {
  projects: { names: ['project', 'proj'], path: '/api/v1/projects', watch: 'project' },
  environments: { names: ['environment', 'env'], path: undefined, watch: 'environment' },
  servers: { names: ['server'], path: '/api/v1/servers', watch: 'server' },
  applications: { names: ['application', 'app', 'apps'], path: '/api/v1/applications', watch: 'application' },
  deployments: { names: ['deployment', 'deploy'], path: undefined, watch: 'deployment' },
} as const;

export type CliKind = keyof typeof kinds;

/** @throws Error that lists the kinds. */
export function kindOf(word: string): CliKind {
  for (const [kind, { names }] of Object.entries(kinds)) {
    if (word === kind || (names as readonly string[]).includes(word)) return kind as CliKind; // keys of the table
  }
  throw new Error(`Unknown kind ${word}: one of ${Object.keys(kinds).join(', ')}`);
}

export function watchName(kind: CliKind): string {
  return kinds[kind].watch;
}

/** Every object of a kind that the caller may see, within a project where one is named. */
export async function listObjects(client: Client, kind: CliKind, project?: string): Promise<ApiObject[]> {
  const projectId = project === undefined ? undefined : (await findObject(client, 'projects', project)).id;
  const query = projectId === undefined ? {} : { projectId };
  const { path } = kinds[kind];
  if (path !== undefined) return client.list(path, query);
  if (kind === 'environments') {
    const projects = projectId === undefined ? await client.list('/api/v1/projects') : [{ id: projectId }];
    const pages = await Promise.all(projects.map((it) => client.list(`/api/v1/projects/${it.id}/environments`)));
    return pages.flat();
  }
  const applications = await client.list('/api/v1/applications', query);
  const pages = await Promise.all(applications.map((it) => client.list(`/api/v1/applications/${it.id}/deployments`)));
  return pages.flat();
}

/**
 * The one object of that id or name.
 *
 * @throws Error if there is none, or if several bear the name.
 */
export async function findObject(
  client: Client,
  kind: CliKind,
  nameOrId: string,
  project?: string,
): Promise<ApiObject> {
  const all = await listObjects(client, kind, project);
  const found = all.filter((it) => it.id === nameOrId || it.name === nameOrId);
  const [first, second] = found;
  if (first === undefined) throw new Error(`No ${kind.slice(0, -1)} is called ${nameOrId}`);
  if (second !== undefined)
    throw new Error(
      `Several ${kind} are called ${nameOrId}: name the project, or one of ${found.map((it) => it.id).join(', ')}`,
    );
  return first;
}

/** Path of one object. */
export function pathOf(kind: CliKind, it: ApiObject): string {
  if (kind === 'environments') return `/api/v1/projects/${String(it['project_id'])}/environments/${it.id}`;
  return `/api/v1/${kind}/${it.id}`;
}
