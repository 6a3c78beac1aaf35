import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';

/** The projects of these names, as `allowed_projects` of an object; `all` alone stands for every project. */
export async function allowedProjects(client: Client, names: readonly string[]): Promise<'all' | string[]> {
  if (names.length === 1 && names[0] === 'all') return 'all';
  return Promise.all(names.map(async (it) => (await findObject(client, 'projects', it)).id));
}
