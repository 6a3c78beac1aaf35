import { z } from 'zod';
import type { ApplicationManifest } from '../../manifests/application.ts';
import { parseApplications } from '../../manifests/application.ts';
import { changesOf } from '../application-change.ts';
import type { Change, References } from '../application-change.ts';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import { contentOf } from '../file-content.ts';
import { findObject, listObjects } from '../objects.ts';
import { followDeployment } from './deploy.ts';

interface Options {
  wait?: boolean;
  dryRun?: boolean;
  /** False: it is left to `setpoint deploy`. */
  deploy?: boolean;
}

const ofProject = ['prune', 'set', 'manager', 'force'] as const;
type OfProject = Partial<Record<(typeof ofProject)[number], unknown>>;

const ComposeFile = z.object({ compose_file: z.string().nullable() });
const Variables = z.object({ env: z.record(z.string(), z.string()), masked: z.boolean() });

/**
 * Creates or changes the declared applications and deploys them if needed; applying the same file again does nothing.
 */
export async function apply(
  client: Client,
  options: Options & OfProject & { file: string },
  signal: AbortSignal,
): Promise<void> {
  const foreign = ofProject.find((option) => options[option] !== undefined);
  if (foreign !== undefined) throw new Error(`--${foreign} is of a project as one plan: name the project by --project`);
  const manifests = parse(options.file, await contentOf(options.file));
  if (manifests.length === 0) throw new Error(`${options.file} declares nothing: is it the output of another program?`);
  for (const manifest of manifests) await applyApplication(client, manifest, options, signal);
}

function parse(file: string, content: string): ApplicationManifest[] {
  try {
    return parseApplications(content);
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/**
 * Creates or changes one declared application and prints what changed. @throws Error when the server refuses the
 * change, or when its deployment was waited for and did not succeed.
 */
export async function applyApplication(
  client: Client,
  manifest: ApplicationManifest,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const plan = await planOf(client, manifest);
  const { name } = manifest.metadata;
  const { dryRun: isDryRun = false, deploy: isDeployed = true } = options;
  const app = isDryRun ? plan.existing : await write(client, manifest, plan);
  printPlan(name, plan, isDryRun ? 'would be ' : '');
  const rollout = app && isDeployed ? await rolloutOf(client, app, plan, isDryRun) : undefined;
  printWhy(name, rollout, isDryRun ? 'would be' : 'is');
  if (app === undefined || rollout === undefined || isDryRun) return;
  const deployment =
    rollout.is === 'made'
      ? await client.object('POST', `/api/v1/applications/${app.id}/deploy`, {})
      : rollout.deployment;
  console.log(`Deployment ${String(deployment['number'])} of ${name}: ${deployment.status ?? ''}`);
  if (options.wait !== false) await followDeployment(client, app, deployment, signal);
}

interface Plan {
  places: { project: ApiObject; environment: ApiObject; server: ApiObject };
  /** Fields of the body with the ids of what the manifest names. */
  references: References;
  /** Absent: it is to be created. */
  existing: ApiObject | undefined;
  changes: readonly Change[];
}

function printPlan(name: string, plan: Plan, would: string): void {
  console.log(`application ${name} ${isSame(plan) ? 'unchanged' : `${would}${verbOf(plan)}`}`);
  for (const it of plan.changes) console.log(`  ${it.field}: ${it.text}`);
}

function verbOf({ existing }: Plan): string {
  return existing === undefined ? 'created' : 'changed';
}

function isSame({ existing, changes }: Plan): boolean {
  return existing !== undefined && changes.length === 0;
}

async function planOf(client: Client, manifest: ApplicationManifest): Promise<Plan> {
  const { spec, metadata } = manifest;
  const project = await findObject(client, 'projects', spec.project);
  const environment = await findObject(client, 'environments', spec.environment, project.id);
  const server = await findObject(client, 'servers', spec.server);
  const places = { project, environment, server };
  const references = await referencesOf(client, spec);
  const existing = (await listObjects(client, 'applications', project.id)).find(
    (it) => it.name === metadata.name && it['environment_id'] === environment.id,
  );
  if (existing === undefined) return { places, references, existing, changes: [] };
  if (existing['server_id'] !== server.id)
    throw new Error(
      `${metadata.name} runs on another server than ${spec.server}: it cannot be moved. Name its present server, or delete the application and apply again`,
    );
  const variables =
    spec.env === undefined
      ? undefined
      : Variables.parse(await client.request('GET', `/api/v1/applications/${existing.id}/env`));
  const file =
    spec.compose_file === undefined
      ? undefined
      : ComposeFile.parse(await client.request('GET', `/api/v1/applications/${existing.id}/compose`));
  const changes = changesOf(manifest, { ...existing, ...file }, variables, references);
  return { places, references, existing, changes };
}

/** @throws Error if nothing has the name */
async function referencesOf(client: Client, spec: ApplicationManifest['spec']): Promise<References> {
  const idOf = async (kind: 'git-credentials' | 'registries', name: string) =>
    (await findObject(client, kind, name)).id;
  const { git_credential, registry } = spec;
  return {
    ...(git_credential !== undefined && { git_credential_id: await idOf('git-credentials', git_credential) }),
    ...(registry !== undefined && { registry_id: await idOf('registries', registry) }),
  };
}

/** @throws Error with the name of the application that a refusal left unchanged. */
async function write(client: Client, manifest: ApplicationManifest, plan: Plan): Promise<ApiObject> {
  const { existing } = plan;
  try {
    return existing === undefined
      ? await create(client, manifest, plan)
      : await change(client, manifest, existing, plan);
  } catch (error) {
    if (!(error instanceof Refused) || error.status >= 500) throw error;
    const { name } = manifest.metadata;
    throw new Error(`application ${name} is not ${verbOf(plan)}: ${error.message}`, { cause: error });
  }
}

/** What brings what is declared: a deployment that is to be made, `why` where no change says so, or one under way. */
type Rollout = { is: 'made'; why?: string } | { is: 'under way'; deployment: ApiObject };

/** `app`: as it is after the changes, or before them where nothing is done. `undefined`: nothing is to be deployed. */
async function rolloutOf(
  client: Client,
  app: ApiObject,
  { existing, changes }: Plan,
  isDryRun: boolean,
): Promise<Rollout | undefined> {
  const { deployment_id: newest, is_source_deployed: isDeployed } = app;
  const isChanged = isDryRun || app.generation !== existing?.generation;
  if (existing === undefined || (isChanged && changes.some((it) => it.isSource))) return { is: 'made' };
  if (app['current_deployment_id'] === null && app.status === 'stopped')
    return { is: 'made', why: 'it has no deployment' };
  if (app.status === 'failed') return { is: 'made', why: 'it has failed' };
  if (app['run'] === 'stopped' || typeof newest !== 'string') return undefined;
  // an earlier release does not say so
  if (isDeployed === false) return { is: 'made', why: 'its newest deployment is not of its source' };
  const deployment = await client.object('GET', `/api/v1/deployments/${newest}`);
  const { status = '' } = deployment;
  if (newest !== existing['deployment_id']) return { is: 'under way', deployment };
  if (status === 'succeeded') return undefined;
  if (!['failed', 'cancelled'].includes(status)) return { is: 'under way', deployment };
  return { is: 'made', why: `its newest deployment ${String(deployment['number'])} is ${status}` };
}

function printWhy(name: string, rollout: Rollout | undefined, verb: string): void {
  if (rollout?.is === 'made' && rollout.why !== undefined) console.log(`${name} ${verb} deployed, as ${rollout.why}`);
}

function create(client: Client, manifest: ApplicationManifest, { places, references }: Plan): Promise<ApiObject> {
  const { project, environment, server } = places;
  return client.object('POST', '/api/v1/applications', {
    project_id: project.id,
    environment_id: environment.id,
    server_id: server.id,
    name: manifest.metadata.name,
    ...bodyOf(manifest, references),
  });
}

/** Changes the version that was read: another change since then is a conflict. */
async function change(
  client: Client,
  manifest: ApplicationManifest,
  existing: ApiObject,
  { changes, references }: Plan,
): Promise<ApiObject> {
  if (changes.length === 0) return existing;
  const version = String(existing['resource_version']);
  const path = `/api/v1/applications/${existing.id}`;
  try {
    return await client.object('PUT', path, bodyOf(manifest, references), { 'if-match': version });
  } catch (error) {
    if (!(error instanceof Refused && error.message.includes('If-Match'))) throw error;
    throw new Error(`${manifest.metadata.name} was changed by another request meanwhile: apply again`, {
      cause: error,
    });
  }
}

function bodyOf({ spec, metadata }: ApplicationManifest, references: References): Record<string, unknown> {
  const { project: _p, environment: _e, server: _s, git_credential: _g, registry: _r, ...fields } = spec;
  return { ...fields, ...references, ...(metadata.labels !== undefined && { labels: metadata.labels }) };
}
