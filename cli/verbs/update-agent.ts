import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';

const Answer = z.object({
  status: z.string(),
  agent_version: z.string().nullable(),
  desired_agent_version: z.string(),
});
const lookMs = 2000;
/** A download takes an hour at most, but one that takes longer than this is not worth watching. */
const patienceMs = 15 * 60_000;

/**
 * Lets the agent of a server update itself to the release of the control plane, and waits until it runs. @throws Error if
 * it does not
 */
export async function updateAgent(
  client: Client,
  name: string,
  options: { expect?: string; wait?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const path = pathOf('servers', server);
  const body = options.expect === undefined ? {} : { version: options.expect };
  const answer = Answer.parse(await client.request('POST', `${path}/update-agent`, body));
  const wanted = answer.desired_agent_version;
  if (answer.status === 'current') {
    console.log(`The agent of ${name} has version ${wanted} already`);
    return;
  }
  const agent = `The agent of ${name}, version ${answer.agent_version ?? 'unknown'},`;
  const isAway = server['agent_status'] === 'disconnected';
  console.log(
    isAway
      ? `${agent} is not connected: it updates itself to ${wanted} once it is back`
      : `${agent} updates itself to ${wanted}`,
  );
  if (options.wait === false) return;
  const goesOn = `The update goes on: \`setpoint describe server ${name}\` shows how it ends`;
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
  for (;;) {
    await delay(lookMs, undefined, { signal: deadline }).catch(() => {
      throw new Error(goesOn);
    });
    const now = await client.object('GET', path);
    if (now['agent_version'] === wanted && now['agent_status'] === 'connected') break;
    const failed = now.conditions?.find(({ type, status }) => type === 'AgentUpdateFailed' && status === 'true');
    if (failed !== undefined) throw new Error(failed.message);
    const unable = now.conditions?.find(({ reason }) => reason === 'CannotUpdateItself');
    if (unable !== undefined) throw new Error(unable.message);
    const double = now.conditions?.find(({ type, status }) => type === 'AgentIdentityConflict' && status === 'true');
    if (double !== undefined) throw new Error(double.message);
    if (now['desired_agent_version'] !== wanted) throw new Error('Another version was asked for meanwhile');
  }
  console.log(`It runs version ${wanted}`);
}
