import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';

interface Options {
  project?: string;
  wait?: boolean;
}

const Granted = z.array(z.string());

/** Gives capabilities of the kernel to the instances of an application, which are replaced by instances that have them. */
export async function grant(
  client: Client,
  name: string,
  capabilities: readonly string[],
  options: Options,
): Promise<void> {
  await change(client, name, options, (now) => [...now, ...inItsForm(capabilities)]);
}

/** Takes capabilities that were granted away again. @throws Error for one that the application does not have */
export async function revoke(
  client: Client,
  name: string,
  capabilities: readonly string[],
  options: Options,
): Promise<void> {
  await change(client, name, options, (now) => {
    const gone = inItsForm(capabilities);
    const others = gone.filter((one) => !now.includes(one));
    if (others.length > 0)
      throw new Error(
        `${others.join(', ')} is not granted to ${name}: ${now.length === 0 ? 'it has no' : `it has ${now.join(', ')} and no`} other capability`,
      );
    return now.filter((one) => !gone.includes(one));
  });
}

/** As the API writes them: `cap_net_raw` is how other programs write NET_RAW. */
function inItsForm(capabilities: readonly string[]): string[] {
  return capabilities.map((one) => one.toUpperCase().replace(/^CAP_/, ''));
}

async function change(
  client: Client,
  name: string,
  options: Options,
  wanted: (now: readonly string[]) => readonly string[],
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const body = { capabilities: [...new Set(wanted(Granted.parse(app['capabilities'])))] };
  const query = options.wait === false ? '' : `?${waiting}`;
  const answer = client.object('PUT', `/api/v1/applications/${app.id}/capabilities${query}`, body, {
    'if-match': String(app['resource_version']),
  });
  const after = await whileServerIsAway(client, app, answer);
  const has = Granted.parse(after['capabilities']);
  const open = options.wait === false ? undefined : openEnd(after);
  const what = has.length === 0 ? 'has no further capabilities' : `has ${has.join(', ')}`;
  if (open !== undefined) throw new Error(`${name} ${what}: ${open}`);
  console.log(`${name} ${what}`);
}
