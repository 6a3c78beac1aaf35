import { confirm } from '../ask.ts';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import type { CliKind } from '../objects.ts';
import { findObject, kindOf, pathOf, singular } from '../objects.ts';
import { openEnd, waiting } from '../settled.ts';

/** What is deleted with an object of a kind. */
const takes = {
  projects: ' with all that is in it',
  environments: ' with all that is in it',
  servers: '; the containers there stay as they are',
  applications: ' with its instances and deployments',
  volumes: ' with its data',
} as const;

/** Deletes an object after a confirmation and waits until it is gone. @throws Error while something still holds it. */
export async function deleteObject(
  client: Client,
  word: string,
  name: string,
  options: { project?: string; yes?: boolean; force?: boolean; wait?: boolean },
): Promise<void> {
  const kind = kindOf(word);
  if (kind === 'deployments') throw new Error('A deployment is not deleted by itself: it goes with its application');
  const it = await findObject(client, kind, name, options.project);
  const what = `${singular(kind)} ${it.name ?? it.id}`;
  if (options.yes !== true) await confirm(`Delete ${what}${takes[kind]}?`);
  const query = [options.force === true ? 'force=true' : '', options.wait === false ? '' : waiting].filter(Boolean);
  await client.request('DELETE', `${pathOf(kind, it)}?${query.join('&')}`);
  const left = await stillThere(client, kind, it);
  if (left === undefined) console.log(`${what} is deleted`);
  else if (options.wait === false) console.log(`${what} is being deleted`);
  else throw new Error(`${what} is still being deleted: ${openEnd(left) ?? left.conditions?.[0]?.message ?? ''}`);
}

async function stillThere(client: Client, kind: CliKind, it: ApiObject): Promise<ApiObject | undefined> {
  try {
    return await client.object('GET', pathOf(kind, it));
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  }
}
