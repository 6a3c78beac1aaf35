import { maxReplicas } from '../../store/kinds/application.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { whileComing } from '../while-coming.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';
import { followDeployment } from './deploy.ts';

interface Options {
  project?: string;
  wait?: boolean;
}

export async function stop(client: Client, name: string, options: Options): Promise<void> {
  await bring(client, await findObject(client, 'applications', name, options.project), 'stop', options);
}

export async function restart(client: Client, name: string, options: Options): Promise<void> {
  await bring(client, await findObject(client, 'applications', name, options.project), 'restart', options);
}

export async function scale(client: Client, name: string, replicas: string, options: Options): Promise<void> {
  if (!/^\d{1,9}$/.test(replicas) || Number(replicas) > maxReplicas)
    throw new Error(`The number of instances must be 0 to ${maxReplicas}: got ${replicas}`);
  const app = await findObject(client, 'applications', name, options.project);
  await bring(client, app, 'scale', options, { replicas: Number(replicas) });
}

/** Starts an application; follows its deployment if one is needed. */
export async function start(client: Client, name: string, options: Options, signal: AbortSignal): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const started = await client.object('POST', `/api/v1/applications/${app.id}/start`, {});
  const id = started['deployment_id'];
  const deployment = typeof id === 'string' ? await client.object('GET', `/api/v1/deployments/${id}`) : undefined;
  if (deployment !== undefined && deployment['finished_at'] === null) {
    console.log(`Deployment ${String(deployment['number'])} of ${name}: ${deployment.status ?? ''}`);
    if (options.wait === false) return;
    await followDeployment(client, app, deployment, signal);
  }
  // repeating the request changes nothing, and its answer comes when the application has settled
  await bring(client, app, 'start', options);
}

/** Requests a change, and says while its answer is waited for why that takes long. */
function answerOf(client: Client, app: ApiObject, what: string, { wait }: Options, body: object): Promise<ApiObject> {
  const path = `/api/v1/applications/${app.id}/${what}`;
  if (wait === false) return whileServerIsAway(client, app, client.object('POST', path, body));
  const answer = client.object('POST', `${path}?${waiting}`, body);
  return whileServerIsAway(client, app, whileComing(client, app, answer));
}

/** Requests a change and prints the result. @throws Error if the application did not reach the requested state. */
async function bring(client: Client, app: ApiObject, what: string, options: Options, body = {}): Promise<void> {
  const after = await answerOf(client, app, what, options, body);
  const goal = what === 'stop' || after['replicas'] === 0 ? 'stopped' : 'running';
  const ready = goal === 'running' ? `, ${String(after['ready_replicas'])} of ${String(after['replicas'])} ready` : '';
  const is = `${app.name ?? app.id} is ${after.status ?? 'unknown'}${ready}`;
  const condition = after.conditions?.find((one) => one.type === 'Ready');
  if (goal === 'running' && condition?.reason === 'Completed' && openEnd(after) === undefined) {
    console.log(`${app.name ?? app.id} has run: ${condition.message}`);
    return;
  }
  if (options.wait !== false && (after.status !== goal || openEnd(after) !== undefined)) {
    throw new Error(`${is}: ${openEnd(after) ?? condition?.message ?? 'the reason is not known'}`);
  }
  console.log(is);
}
