import { rename } from 'node:fs/promises';
import { z } from 'zod';
import { serverOfIdentity } from '../agent/identity.ts';
import { defined } from '../store/defined.ts';
import type { ApiObject, Client } from './client.ts';
import { Refused } from './client.ts';
import { openEnd, waiting } from './settled.ts';

interface Options {
  name: string;
  /** The data directory of the agent. */
  agentData: string;
  print: (line: string) => void;
}

/**
 * The server of the agent of `setpoint dev`, and the token by which that agent joins where it has not. An agent keeps
 * its server: the data of one whose server, `gone`, was deleted is set aside. @throws Error if a deletion does not end
 */
export async function ensureServer(
  client: Client,
  { name, agentData, print }: Options,
): Promise<{ server: ApiObject; joinToken?: string; gone?: string }> {
  const joined = await serverOfIdentity(agentData);
  const isMeant = (it: ApiObject): boolean => it.id === joined || it.name === name;
  const all = await withoutDeleted(client, isMeant, print);
  const own = all.find(({ id }) => id === joined);
  if (own !== undefined && own['agent_id'] !== null) return { server: own };
  const gone = own === undefined ? joined : undefined;
  if (gone !== undefined) {
    const kept = `${agentData}-of-${gone}`;
    await rename(agentData, kept);
    print(`Server ${gone} is gone: the data of its agent is kept in ${kept}, and nothing needs it`);
  }
  const named = own ?? all.find((it) => it.name === name);
  if (named !== undefined) {
    print(
      `The agent has not joined as server "${String(named.name)}" with this data directory: it joins by a new token`,
    );
    return {
      ...joining(await client.object('POST', `/api/v1/servers/${named.id}/join-token`, {})),
      ...defined({ gone }),
    };
  }
  const created = await client.object('POST', '/api/v1/servers', { name });
  await client.object('PUT', `/api/v1/servers/${created.id}`, { direct_ports_enabled: true });
  return { ...joining(created), ...defined({ gone }) };
}

function joining(server: ApiObject): { server: ApiObject; joinToken: string } {
  return { server, joinToken: z.string().parse(server['join_token']) };
}

/** The servers, once none of those that are meant is being deleted. */
async function withoutDeleted(
  client: Client,
  isMeant: (it: ApiObject) => boolean,
  print: (line: string) => void,
): Promise<ApiObject[]> {
  const all = await client.list('/api/v1/servers');
  const deleted = all.filter((it) => it.status === 'deleting' && isMeant(it));
  for (const { id, name = id } of deleted) {
    print(`Server "${name}" is being deleted, which takes a minute without its agent`);
    await client.request('DELETE', `/api/v1/servers/${id}?force=true&${waiting}`).catch(unlessGone);
    const left = await client.object('GET', `/api/v1/servers/${id}`).catch(unlessGone);
    if (left !== undefined)
      throw new Error(
        `Server "${name}" is still being deleted: ${openEnd(left) ?? 'it has not ended yet'}. Start again`,
      );
  }
  return all.filter((it) => !deleted.includes(it));
}

function unlessGone(error: unknown): undefined {
  if (!(error instanceof Refused) || error.status !== 404) throw error;
}
