import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject, Client } from './client.ts';
import { unlessGone } from './client.ts';

/** Why a server cannot carry out a change now; `undefined`: it can. */
function hindranceOf({ status, agent_status }: ApiObject): string | undefined {
  if (agent_status === 'unknown') return 'its agent has not joined yet';
  if (agent_status !== 'connected') return 'its agent is not connected';
  return status === 'error' ? 'its container engine does not answer' : undefined;
}

/** An answer that takes longer is waited for: this long in milliseconds. */
const answerMs = 1000;

/** Returns the answer to a change of `it`. If the answer takes long, and its server is away, prints what it waits for. */
export async function whileServerIsAway<T>(client: Client, it: ApiObject, answer: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const slow = delay(answerMs, true, { signal: answered.signal }).catch(() => false);
  const [value] = await Promise.all([
    answer.finally(() => answered.abort()),
    slow.then((isSlow) => (isSlow ? printServerAway(client, it) : undefined)),
  ]);
  return value;
}

/** Prints to standard error what a change of `it`, or of a server, waits for if that server cannot carry it out now. */
export async function printServerAway(client: Client, it: ApiObject): Promise<void> {
  const id = 'agent_status' in it ? it.id : it['server_id'];
  const server = typeof id === 'string' ? await unlessGone(client.object('GET', `/api/v1/servers/${id}`)) : undefined;
  if (server === undefined) return;
  const name = server.name ?? server.id;
  const why = hindranceOf(server);
  if (why === undefined) return;
  console.error(
    `… Waits for server ${name}, as ${why}: \`setpoint describe server ${name}\` shows what to do. Ctrl-C ends the wait, and the change goes on`,
  );
}
