import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { printed } from '../printed.ts';
import { secretValues } from '../secrets.ts';
import { cell } from '../table.ts';
import { followDeployment } from './deploy.ts';

const Variables = z.object({ env: z.record(z.string(), z.string()), masked: z.boolean() });
const Written = z.object({ deployment_id: z.string().nullish() });

/**
 * Prints variables of an application, or sets or removes some. A running application is rolled out with the change; the
 * deployment is followed to its end. @throws Error if it did not succeed.
 */
export async function env(
  client: Client,
  action: string,
  name: string,
  rest: readonly string[],
  options: { project?: string; output?: string; wait?: boolean; secret?: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const path = `/api/v1/applications/${app.id}/env`;
  const { secret = [] } = options;
  if (secret.length > 0 && action !== 'set')
    throw new Error(`--secret is for env set: env ${action} takes names alone`);
  let answer: unknown;
  switch (action) {
    case 'get':
      await print(Variables.parse(await client.request('GET', path)), rest, options.output);
      return;
    case 'set':
      answer = await client.request('PATCH', path, {
        env: { ...Object.fromEntries(rest.map(assignment)), ...(await secretValues(secret)) },
      });
      break;
    case 'unset':
      answer = await client.request('PATCH', path, {
        env: Object.fromEntries(rest.map((variable) => [variable, null])),
      });
      break;
    default:
      throw new Error(`Cannot ${action} variables: env get, env set or env unset`);
  }
  console.log(
    `${rest.length + secret.length} variable(s) of ${app.name ?? name} ${action === 'set' ? 'set' : 'removed'}`,
  );
  const { deployment_id: id } = Written.parse(answer);
  if (typeof id !== 'string' || id === app['deployment_id']) return;
  const deployment = await client.object('GET', `/api/v1/deployments/${id}`);
  console.log(`Deployment ${String(deployment['number'])} of ${app.name ?? name}: ${deployment.status ?? ''}`);
  if (options.wait !== false) await followDeployment(client, app, deployment, signal);
}

async function print(
  { env: all }: z.infer<typeof Variables>,
  wanted: readonly string[],
  output?: string,
): Promise<void> {
  const missing = wanted.find((name) => !Object.hasOwn(all, name));
  if (missing !== undefined) throw new Error(`There is no variable ${missing}: \`setpoint env get\` lists them`);
  const shown = Object.entries(all).filter(([name]) => wanted.length === 0 || wanted.includes(name));
  if (output === undefined || output === 'text')
    for (const [name, value] of shown) console.log(`${name}=${cell(value)}`);
  else console.log(await printed(Object.fromEntries(shown), output));
}

function assignment(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at <= 0) throw new Error(`A variable is set by NAME=VALUE: got ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}
