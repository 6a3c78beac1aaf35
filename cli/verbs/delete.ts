import { z } from 'zod';
import { confirm } from '../ask.ts';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import type { CliKind } from '../objects.ts';
import { aKind, findObject, kindOf, pathOf, rowOfKind, typedKind } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';

/** Deletes an object after a confirmation and waits until it is gone. @throws Error while something still holds it. */
export async function deleteObject(
  client: Client,
  word: string,
  name: string,
  options: { project?: string; yes?: boolean; force?: boolean; keepData?: boolean; wait?: boolean },
): Promise<void> {
  const kind = kindOf(word);
  const { takes, takesByForce = '', parent } = rowOfKind(kind);
  if (takes === undefined) {
    const instead = parent === undefined ? '' : `: it goes with its ${typedKind(parent)}`;
    throw new Error(`Cannot delete ${aKind(kind)} by itself${instead}`);
  }
  const keepsData = options.keepData === true;
  if (keepsData && kind !== 'template-instances')
    throw new Error('--keep-data is for a template instance: its volumes and databases stay');
  const it = await findObject(client, kind, name, options.project);
  const what = `${typedKind(kind)} ${it.name ?? it.id}`;
  if (options.yes !== true)
    await confirm(
      `Delete ${what}${options.force === true ? takesByForce : ''}${keepsData ? ' and its applications' : takes}?`,
    );
  const query = [
    options.force === true ? 'force=true' : '',
    keepsData ? 'keep_data=true' : '',
    options.wait === false ? '' : waiting,
  ].filter(Boolean);
  const answer = client.request('DELETE', `${pathOf(kind, it)}?${query.join('&')}`).catch(byOption);
  await whileServerIsAway(client, it, answer);
  const left = await stillThere(client, kind, it);
  if (left === undefined) {
    console.log(`${what} is deleted`);
    if (kind === 'servers') await printLeft(client, it);
  } else if (options.wait === false) console.log(`${what} is being deleted`);
  else throw new Error(`${what} is still being deleted: ${openEnd(left) ?? left.conditions?.[0]?.message ?? ''}`);
}

const Left = z.looseObject({
  kind: z.literal('server_agent_left'),
  message: z.string(),
  resource: z.object({ id: z.string() }),
});

/** Prints what the agent of a deleted server left on its machine, if the caller was notified of it. Never throws. */
async function printLeft(client: Client, { id, name = id }: ApiObject): Promise<void> {
  const sent = await client.list('/api/v1/notifications', { q: name }).catch(() => []); // the server is deleted in any case
  for (const one of sent) {
    const { data } = Left.safeParse(one);
    if (data?.resource.id === id) console.log(data.message);
  }
}

/** Names the option of this command where a refusal names the parameter of the API. */
function byOption(error: unknown): never {
  if (error instanceof Refused && error.reasons.includes('force_needed'))
    throw new Error(error.message.replace('send force=true', 'repeat the command with --force'), { cause: error });
  throw error;
}

async function stillThere(client: Client, kind: CliKind, it: ApiObject): Promise<ApiObject | undefined> {
  try {
    return await client.object('GET', pathOf(kind, it));
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  }
}
