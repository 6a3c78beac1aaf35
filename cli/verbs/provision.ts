import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { resumed } from '../resume.ts';

/** Tries again to provision the machine of a server, and with `wait` prints its steps until it has ended. */
export async function provision(
  client: Client,
  name: string,
  options: { wait?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const asked = await client.object('POST', `${pathOf('servers', server)}/provision`, {});
  if (options.wait === true) await followProvisioning(client, asked, signal);
  else printProvisioning(name);
}

/** Prints that the provisioning of a server goes on, and how to follow it. */
export function printProvisioning(name: string): void {
  console.log(
    `Its machine is being provisioned by SSH: \`setpoint provision ${name} --wait\` follows it, \`setpoint describe server ${name}\` shows how far it is`,
  );
}

/**
 * Prints each step of a provisioning as it changes, until the server is active. `asked`: the server after the change that
 * asked for it. @throws Error with what to do if it fails, or if the signal ends the wait
 */
export async function followProvisioning(client: Client, asked: ApiObject, signal: AbortSignal): Promise<void> {
  const name = asked.name ?? asked.id;
  const shown = new Map<string, string>();
  for await (const frame of resumed(client, '/ws/watch', { kinds: 'server' }, {}, signal)) {
    if (frame['id'] !== undefined && frame['id'] !== asked.id) continue;
    const now = await client.object('GET', pathOf('servers', asked));
    // until then its conditions are of the attempt before
    if ((now.observed_generation ?? 0) < (asked.generation ?? 0)) continue;
    for (const line of linesOf(now)) {
      if (shown.get(line.type) === line.text) continue;
      shown.set(line.type, line.text);
      console.log(line.text);
    }
    if (now.status === 'active') {
      console.log(`server ${name} is active: its agent has joined`);
      return;
    }
    if (now.status === 'provisioning') continue;
    const ready = now.conditions?.find(({ type }) => type === 'Ready');
    const how = now.status === 'error' ? 'could not be provisioned' : `is ${now.status ?? 'unknown'}`;
    throw new Error(`server ${name} ${how}: ${ready?.message ?? 'the reason is not known'}`);
  }
  throw new Error(`The provisioning goes on: \`setpoint describe server ${name}\` shows how it ends`);
}

const notSteps = ['Ready', 'Reconciling', 'Stalled'];

/** The steps that have begun, in words. A failure that ends the provisioning is left to the error. */
function linesOf({ conditions = [], status: phase }: ApiObject): { type: string; text: string }[] {
  const begun = conditions.filter(({ type, reason }) => !notSteps.includes(type) && reason !== 'Pending');
  return begun.flatMap(({ type, status, message }) => {
    if (status === 'false' && phase !== 'provisioning') return [];
    const end = { true: '', unknown: ' …', false: ' (it is tried again)' }[status] ?? '';
    return [{ type, text: `  ${type}: ${message}${end}` }];
  });
}
