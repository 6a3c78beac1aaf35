import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject, Client } from './client.ts';

/** Why a server cannot carry out a change now; `undefined`: it can. */
function hindranceOf({ status, agent_status, agent_id }: ApiObject): string | undefined {
  if (agent_status === 'unknown')
    return agent_id === null ? 'its agent has not joined yet' : 'several agents connect with its identity';
  if (agent_status !== 'connected') return 'its agent is not connected';
  return status === 'error' ? 'its container engine does not answer' : undefined;
}

/** An answer that takes longer is waited for: this long in milliseconds. */
const answerMs = 1000;

/** Returns the answer to a change of `it`. If the answer takes long, and its server is away, prints what it waits for. */
export async function whileServerIsAway<T>(client: Client, it: ApiObject, answer: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const slow = delay(answerMs, true, { signal: answered.signal }).catch(() => false);
  void slow.then((isSlow) => (isSlow ? printServerAway(client, it, answered.signal) : undefined));
  return answer.finally(() => answered.abort());
}

/**
 * Prints to standard error what a change of `it`, or of a server, waits for if that server cannot carry it out now. Never
 * throws: the change goes on where nothing is known of its server. Once `over` is aborted, nothing is printed.
 */
export async function printServerAway(client: Client, it: ApiObject, over?: AbortSignal): Promise<void> {
  const id = 'agent_status' in it ? it.id : it['server_id'];
  if (typeof id !== 'string') return;
  const server = await client.object('GET', `/api/v1/servers/${id}`).catch(() => undefined);
  if (server === undefined || over?.aborted === true) return;
  const name = server.name ?? server.id;
  const why = hindranceOf(server);
  if (why === undefined) return;
  console.error(
    `… Waits for server ${name}, as ${why}: \`setpoint describe server ${name}\` shows what to do. Ctrl-C ends the wait, and the change goes on`,
  );
}
