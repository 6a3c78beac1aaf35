import type { ApiObject, Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { gapLine, resumed } from '../resume.ts';
import { printServerAway } from '../server-away.ts';

interface Options {
  project?: string;
  wait?: boolean;
}

/** Deploys an application and prints its build until the deployment ends. @throws Error if it did not succeed. */
export async function deploy(client: Client, name: string, options: Options, signal: AbortSignal): Promise<void> {
  await bring(client, name, 'deploy', options, signal);
}

/** Returns to a deployment, by default the one that served before, and waits for the end. @throws Error if it did not succeed. */
export async function rollback(
  client: Client,
  name: string,
  options: Options & { to?: string },
  signal: AbortSignal,
): Promise<void> {
  await bring(client, name, 'rollback', options, signal);
}

/** The body that names the deployment of that number. @throws Error if there is none, with those that there are */
async function numbered(client: Client, app: ApiObject, number: string): Promise<object> {
  const all = await client.list(`/api/v1/applications/${app.id}/deployments`);
  const found = all.find((it) => String(it['number']) === number);
  if (found !== undefined) return { deployment_id: found.id };
  const kept = all.map((it) => String(it['number'])).join(', ');
  throw new Error(`There is no deployment ${number} of ${app.name ?? app.id}: kept are ${kept}`);
}

async function bring(
  client: Client,
  name: string,
  what: 'deploy' | 'rollback',
  options: Options & { to?: string },
  signal: AbortSignal,
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const body = options.to === undefined ? {} : await numbered(client, app, options.to);
  const deployment = await client.object('POST', `/api/v1/applications/${app.id}/${what}`, body);
  console.log(`Deployment ${String(deployment['number'])} of ${app.name ?? name}: ${deployment.status ?? 'queued'}`);
  if (options.wait !== false) await followDeployment(client, app, deployment, signal);
}

/** Prints build lines and phases of a deployment of `app` until it ends. @throws Error if it did not succeed. */
export async function followDeployment(
  client: Client,
  app: ApiObject,
  deployment: ApiObject,
  signal: AbortSignal,
  print: (line: string) => void = console.log,
): Promise<void> {
  await printServerAway(client, app);
  let last = deployment.status;
  for await (const frame of resumed(client, `/ws/deployments/${deployment.id}/logs`, {}, {}, signal)) {
    if (frame['type'] === 'log') print(`  ${String(frame['message'])}`);
    else if (frame['type'] === 'gap') print(`  ${gapLine(frame)}`);
    else if (frame['type'] === 'status' && frame['status'] !== last) {
      last = String(frame['status']);
      print(last);
    }
  }
  if (signal.aborted)
    throw new Error(
      `Deployment ${String(deployment['number'])} goes on: \`setpoint get deployments\` shows how it ends`,
    );
  const ended = await client.object('GET', `/api/v1/deployments/${deployment.id}`);
  if (ended.status === 'succeeded') return;
  const error = ended['error'] as { message?: string } | null | undefined; // field of the deployment's REST form
  const how = ended.status === 'failed' ? 'failed' : `is ${ended.status ?? 'unknown'}`;
  throw new Error(
    `Deployment ${String(ended['number'])} ${how}${error?.message === undefined ? '' : `: ${error.message}`}`,
  );
}
