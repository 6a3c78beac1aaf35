import type { Client } from './client.ts';
import { findObject } from './objects.ts';

/**
 * Where a new object is, as the API takes it: a project, and a server where one is named. `word`: the kind, for messages.
 * @throws Error without a project, or without a server where the project has no default one
 */
export async function placeOf(
  client: Client,
  word: string,
  { project: name, on }: { project?: string; on?: string },
): Promise<{ project_id: string; server_id?: string }> {
  if (name === undefined) throw new Error(`A ${word} is created in a project: name it by --project`);
  const project = await findObject(client, 'projects', name);
  if (on !== undefined) return { project_id: project.id, server_id: (await findObject(client, 'servers', on)).id };
  if (project['default_server_id'] === null)
    throw new Error(`A ${word} is on a server, and the project has no default one: name a server by --on`);
  return { project_id: project.id };
}
