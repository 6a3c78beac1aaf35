import { readFile } from 'node:fs/promises';
import type { ApplicationManifest } from '../../manifests/application.ts';
import { parseApplications } from '../../manifests/application.ts';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import { findObject, listObjects } from '../objects.ts';
import { followDeployment } from './deploy.ts';

/** Fields that say where the image comes from: their change needs a deployment, which the server does not start itself. */
const sourceFields = [
  'source_type',
  'repository_url',
  'branch',
  'dockerfile_path',
  'build_context',
  'build_args',
  'image_url',
] as const;

/** Creates or changes the declared applications and deploys what needs it; applying the same file again does nothing. */
export async function apply(
  client: Client,
  options: { file: string; wait?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const text = await readFile(options.file === '-' ? '/dev/stdin' : options.file, 'utf8').catch((error: unknown) => {
    throw new Error(`Cannot read ${options.file}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  });
  for (const manifest of parseApplications(text)) await applyApplication(client, manifest, options, signal);
}

/** Brings one declared application about. @throws Error when its deployment was waited for and did not succeed. */
export async function applyApplication(
  client: Client,
  manifest: ApplicationManifest,
  options: { wait?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { app, outcome, deploy } = await put(client, manifest);
  console.log(`application ${manifest.metadata.name} ${outcome}`);
  if (!deploy) return;
  const deployment = await client.object('POST', `/api/v1/applications/${app.id}/deploy`, {});
  console.log(`deployment ${String(deployment['number'])} ${deployment.status ?? ''}`);
  if (options.wait !== false) await followDeployment(client, deployment, signal);
}

interface Applied {
  app: ApiObject;
  outcome: 'created' | 'changed' | 'unchanged';
  deploy: boolean;
}

async function put(client: Client, manifest: ApplicationManifest): Promise<Applied> {
  const { project: projectName, environment: environmentName, server: serverName, env, ...fields } = manifest.spec;
  const { name, labels } = manifest.metadata;
  const project = await findObject(client, 'projects', projectName);
  const environment = await findObject(client, 'environments', environmentName, project.id);
  const server = await findObject(client, 'servers', serverName);
  const body = { ...fields, ...(labels === undefined ? {} : { labels }) };
  const existing = (await listObjects(client, 'applications', project.id)).find(
    (it) => it.name === name && it['environment_id'] === environment.id,
  );
  if (existing === undefined) {
    const ids = { project_id: project.id, environment_id: environment.id, server_id: server.id };
    const app = await client.object('POST', '/api/v1/applications', {
      ...ids,
      name,
      ...body,
      ...(env === undefined ? {} : { env }),
    });
    return { app, outcome: 'created', deploy: true };
  }
  if (existing['server_id'] !== server.id)
    throw new Refused(409, 'CONFLICT', `${name} runs on another server: move it with its server_id before applying`);
  const before = existing.generation;
  let app = await client.object('PUT', `/api/v1/applications/${existing.id}`, body);
  if (env !== undefined) {
    await client.request('PUT', `/api/v1/applications/${existing.id}/env`, env);
    app = await client.object('GET', `/api/v1/applications/${existing.id}`);
  }
  const sourceChanged = sourceFields.some((it) => JSON.stringify(app[it]) !== JSON.stringify(existing[it]));
  const neverDeployed = app['current_deployment_id'] === null && app.status === 'stopped';
  return {
    app,
    outcome: app.generation === before ? 'unchanged' : 'changed',
    deploy: sourceChanged || neverDeployed || app.status === 'failed',
  };
}
