import { readdir, rename } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { serverOfIdentity } from '../agent/identity.ts';
import type { ApiObject, Client } from './client.ts';
import { unlessGone } from './client.ts';
import { openEnd, waiting } from './settled.ts';

interface Options {
  name: string;
  /** The data directory of the agent. */
  agentData: string;
  print: (line: string) => void;
}

/**
 * The server of the agent of `setpoint dev`, and the token by which that agent joins where it has not. An agent keeps
 * its server: the data of one whose server is gone is set aside. @throws Error if a deletion does not end, or the server
 * of that name has another agent
 */
export async function ensureServer(
  client: Client,
  { name, agentData, print }: Options,
): Promise<{ server: ApiObject; joinToken?: string }> {
  const joined = await serverOfIdentity(agentData);
  const isMeant = (it: ApiObject): boolean => it.id === joined || it.name === name;
  const all = await withoutDeleted(client, isMeant, print);
  const own = all.find(({ id }) => id === joined);
  if (own !== undefined && own['agent_id'] !== null) return { server: own };
  if (own === undefined && joined !== undefined) {
    const kept = setAside(agentData, joined);
    await rename(agentData, kept);
    print(`Server ${joined} is gone: the data of its agent is kept in ${kept}, and nothing needs it`);
  }
  const named = own ?? all.find((it) => it.name === name);
  if (named?.['agent_status'] === 'connected')
    throw new Error(
      `The agent of server "${name}" is connected, and is not the one of this data directory: start again in a minute if it ran here until now, else give that server another name (setpoint set server ${name} --name NAME)`,
    );
  if (named !== undefined) {
    print(
      `The agent has not joined as server "${String(named.name)}" with this data directory: it joins by a new token`,
    );
    return joining(await client.object('POST', `/api/v1/servers/${named.id}/join-token`, {}));
  }
  const created = await client.object('POST', '/api/v1/servers', { name });
  await client.object('PUT', `/api/v1/servers/${created.id}`, { direct_ports_enabled: true });
  return joining(created);
}

const Deletions = z.array(z.object({ objects: z.array(z.object({ kind: z.string(), id: z.string() })) }));

/**
 * Ids of the servers that agents with that data directory had, as far as the audit log has their deletion: what is only
 * unknown may be known to another store.
 */
export async function deletedServers(client: Client, agentData: string): Promise<string[]> {
  const prefix = basename(setAside(agentData, ''));
  const folders = await readdir(dirname(agentData));
  const gone = folders.filter((it) => it.startsWith(prefix)).map((it) => it.slice(prefix.length));
  if (gone.length === 0) return [];
  const asked = new URLSearchParams({ route: 'DELETE /servers/:id', result: 'ok', limit: '100' }).toString();
  const entries = Deletions.parse(await client.request('GET', `/api/v1/audit?${asked}`));
  const deleted = entries.flatMap(({ objects }) => objects).filter(({ kind }) => kind === 'server');
  return gone.filter((id) => deleted.some((one) => one.id === id));
}

/** Where the data of an agent is kept whose server is gone. */
function setAside(agentData: string, server: string): string {
  return `${agentData}-of-${server}`;
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
    await unlessGone(client.request('DELETE', `/api/v1/servers/${id}?force=true&${waiting}`));
    const left = await unlessGone(client.object('GET', `/api/v1/servers/${id}`));
    if (left !== undefined)
      throw new Error(
        `Server "${name}" is still being deleted: ${openEnd(left) ?? 'it has not ended yet'}. Start again`,
      );
  }
  return all.filter((it) => !deleted.includes(it));
}
