import { applicationVerbs } from '../rules/application.ts';
import { databaseVerbs } from '../rules/database.ts';
import { backupScheduleVerbs } from '../rules/backup-schedule.ts';
import { backupVerbs } from '../rules/backup.ts';
import { backupDestinationVerbs } from '../rules/backup-destination.ts';
import { deploymentVerbs } from '../rules/deployment.ts';
import { environmentVerbs } from '../rules/environment.ts';
import { functionVerbs } from '../rules/function.ts';
import { gitCredentialVerbs } from '../rules/git-credential.ts';
import { gitWebhookVerbs } from '../rules/git-webhook.ts';
import { projectVerbs } from '../rules/project.ts';
import { runVerbs } from '../rules/run.ts';
import { previewVerbs } from '../rules/preview.ts';
import { restoreVerbs } from '../rules/restore.ts';
import { registryVerbs } from '../rules/registry.ts';
import { serverVerbs } from '../rules/server.ts';
import { syncVerbs } from '../rules/sync.ts';
import { templateInstanceVerbs } from '../rules/template-instance.ts';
import { templateVerbs } from '../rules/template.ts';
import { sshKeyVerbs } from '../rules/ssh-key.ts';
import type { VerbTable } from '../rules/verb-table.ts';
import { volumeVerbs } from '../rules/volume.ts';
import { Refused } from './client.ts';
import type { ApiObject, Client } from './client.ts';

/** What the command knows of a kind. Its columns in a list are in `rows.ts`. */
interface Row {
  /** Its words beside the plural; the first one is the singular, which the API's streams use. */
  names: readonly [string, ...string[]];
  /** The path of its list; absent: its objects are listed under those of its parent. */
  path?: string;
  parent?: 'projects' | 'applications';
  /** The environments of its objects are shown by name. */
  isInEnvironment?: true;
  /** The API has a list of what happened to each object. */
  hasEvents?: true;
  /** What is deleted with an object, in words that end the question before; absent: it is not deleted by itself. */
  takes?: string;
  /** What `--force` deletes beside that, in words that go before those. */
  takesByForce?: string;
  /** Which verbs an object takes in which state. The API judges by the same table. */
  verbs: VerbTable;
}

/** Kinds that the verbs know, by their plural. */
const kinds = {
  projects: {
    names: ['project', 'proj'],
    path: '/api/v1/projects',
    takes: ' with all that is in it',
    verbs: projectVerbs,
  },
  environments: {
    names: ['environment', 'env'],
    parent: 'projects',
    takes: ' with all that is in it',
    verbs: environmentVerbs,
  },
  servers: {
    names: ['server'],
    path: '/api/v1/servers',
    hasEvents: true,
    takes: '; where its agent is connected, it removes itself with its containers, images and rules, but no volumes',
    takesByForce: ', also with applications, databases, functions and volumes on it',
    verbs: serverVerbs,
  },
  applications: {
    names: ['application', 'app', 'apps'],
    path: '/api/v1/applications',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: ' with its instances and deployments',
    verbs: applicationVerbs,
  },
  deployments: {
    names: ['deployment', 'deploy'],
    parent: 'applications',
    hasEvents: true,
    verbs: deploymentVerbs,
  },
  databases: {
    names: ['database', 'db'],
    path: '/api/v1/databases',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: ' with its data',
    verbs: databaseVerbs,
  },
  functions: {
    names: ['function', 'fn'],
    path: '/api/v1/functions',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: ' with its versions and what is known of its calls',
    verbs: functionVerbs,
  },
  runs: {
    names: ['run'],
    parent: 'applications',
    hasEvents: true,
    verbs: runVerbs,
  },
  volumes: {
    names: ['volume', 'vol'],
    path: '/api/v1/volumes',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: ' with its data',
    verbs: volumeVerbs,
  },
  backups: {
    names: ['backup'],
    path: '/api/v1/backups',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: ' with what it has in its bucket',
    verbs: backupVerbs,
  },
  'backup-schedules': {
    names: ['backup_schedule', 'backup-schedule', 'schedule', 'schedules'],
    path: '/api/v1/backup-schedules',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: '; its backups stay',
    verbs: backupScheduleVerbs,
  },
  restores: {
    names: ['restore'],
    path: '/api/v1/restores',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    verbs: restoreVerbs,
  },
  'ssh-keys': {
    names: ['ssh_key', 'ssh-key'],
    path: '/api/v1/settings/ssh-keys',
    takes: '; machines that know its public half still accept it',
    verbs: sshKeyVerbs,
  },
  'git-credentials': {
    names: ['git_credential', 'git-credential'],
    path: '/api/v1/settings/git-credentials',
    takes: '; its host still accepts it until it is revoked there',
    verbs: gitCredentialVerbs,
  },
  'git-webhooks': {
    names: ['git_webhook', 'git-webhook', 'webhook'],
    path: '/api/v1/webhooks/git',
    parent: 'projects',
    takes: ' with its deliveries; calls of its address are refused',
    verbs: gitWebhookVerbs,
  },
  previews: {
    names: ['preview'],
    path: '/api/v1/previews',
    parent: 'projects',
    hasEvents: true,
    takes: ' with its environment and all that is in it',
    verbs: previewVerbs,
  },
  templates: {
    names: ['template'],
    path: '/api/v1/templates',
    takes: '; what was made of it stays',
    verbs: templateVerbs,
  },
  'template-instances': {
    names: ['template_instance', 'template-instance', 'instance', 'instances'],
    path: '/api/v1/template-instances',
    parent: 'projects',
    isInEnvironment: true,
    takes: ' with all that it made, data included',
    verbs: templateInstanceVerbs,
  },
  syncs: {
    names: ['sync'],
    path: '/api/v1/syncs',
    parent: 'projects',
    isInEnvironment: true,
    hasEvents: true,
    takes: '; what it made stays',
    verbs: syncVerbs,
  },
  registries: {
    names: ['registry'],
    path: '/api/v1/settings/registries',
    takes: '; its password is valid until it is revoked there',
    verbs: registryVerbs,
  },
  'backup-destinations': {
    names: ['backup_destination', 'backup-destination', 'destination', 'destinations'],
    path: '/api/v1/settings/backup-destinations',
    takes: '; what is in its bucket stays, and its keys are valid until they are revoked there',
    verbs: backupDestinationVerbs,
  },
} as const satisfies Readonly<Record<string, Row>>;

export type CliKind = keyof typeof kinds;

/** What the command knows of a kind, for code that is generic in the kind. */
export function rowOfKind(kind: CliKind): Row {
  return kinds[kind];
}

/** @throws Error with the list of kinds. */
export function kindOf(word: string): CliKind {
  for (const [kind, { names }] of Object.entries<Row>(kinds)) {
    if (word === kind || names.includes(word)) return kind as CliKind; // a key of the table
  }
  throw new Error(`Unknown kind ${word}: one of ${Object.keys(kinds).join(', ')}`);
}

/** The words that name kinds. */
export function kindWords(): CliKind[] {
  return Object.keys(kinds) as CliKind[]; // the keys of the table
}

/** The singular of a kind; the API's streams name the kind by it. */
export function singular(kind: CliKind): string {
  return kinds[kind].names[0];
}

/** The singular of a kind as it is typed and printed: `ssh-key`. */
export function typedKind(kind: CliKind): string {
  return singular(kind).replace('_', '-');
}

/** The same with its article, such as `an application`. */
export function aKind(kind: CliKind): string {
  const word = typedKind(kind);
  return `${/^([aeio]|ssh)/.test(word) ? 'an' : 'a'} ${word}`;
}

/** Every object of a kind that the caller may see; with `project`, only those of that project. */
export async function listObjects(client: Client, kind: CliKind, project?: string): Promise<ApiObject[]> {
  const projectId = project === undefined ? undefined : (await findObject(client, 'projects', project)).id;
  const query = projectId === undefined ? {} : { projectId };
  const { path } = rowOfKind(kind);
  if (path !== undefined) return client.list(path, query);
  if (kind === 'environments') {
    const projects = projectId === undefined ? await client.list('/api/v1/projects') : [{ id: projectId }];
    const pages = await Promise.all(projects.map((it) => listIn(client, `/api/v1/projects/${it.id}/environments`)));
    return pages.flat();
  }
  const applications = await client.list('/api/v1/applications', query);
  const pages = await Promise.all(applications.map((it) => listIn(client, `/api/v1/applications/${it.id}/${kind}`)));
  return pages.flat();
}

/** The names of what an object belongs to, or their ids where they are not known. */
export interface PlaceNames {
  /** The project of an environment or application, the application of a deployment or a run. */
  parent(it: ApiObject): string;
  environment(it: ApiObject): string;
}

/**
 * Reads the names of the places of a kind's objects, once; a place that is made later is shown by its id. With `found`,
 * environments are read of the projects of these objects alone: each project costs a request.
 */
export async function placeNames(client: Client, kind: CliKind, found?: readonly ApiObject[]): Promise<PlaceNames> {
  const { parent, isInEnvironment } = rowOfKind(kind);
  if (parent === undefined) return { parent: () => '', environment: () => '' };
  const parents = await listObjects(client, parent);
  const projects = new Set((found ?? []).map((it) => it['project_id']));
  const read = isInEnvironment ? parents.filter(({ id }) => found === undefined || projects.has(id)) : [];
  const environments = await Promise.all(read.map((it) => listIn(client, `/api/v1/projects/${it.id}/environments`)));
  const names = new Map([...parents, ...environments.flat()].map((it) => [it.id, it.name]));
  const nameOf = (field: string) => (it: ApiObject) => names.get(String(it[field])) ?? String(it[field]);
  return {
    parent: nameOf(parent === 'projects' ? 'project_id' : 'application_id'),
    environment: nameOf('environment_id'),
  };
}

/** Reads a list below an object that was listed before; an empty one if that object was deleted meanwhile. */
async function listIn(client: Client, path: string): Promise<ApiObject[]> {
  try {
    return await client.list(path);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return [];
    throw error;
  }
}

/**
 * The one object with that id or name. A deployment is named `APPLICATION/NUMBER`, the newest one `APPLICATION`.
 *
 * @throws Error if there is none, or if several have the name.
 */
export async function findObject(
  client: Client,
  kind: CliKind,
  nameOrId: string,
  project?: string,
): Promise<ApiObject> {
  if (kind === 'deployments') return findDeployment(client, nameOrId, project);
  const all = await listObjects(client, kind, project);
  const found = all.filter((it) => it.id === nameOrId || it.name === nameOrId);
  const [first, second] = found;
  if (first === undefined) throw new Error(`No ${typedKind(kind)} is called ${nameOrId}${known(all)}`);
  if (second !== undefined)
    throw new Error(
      `Several ${kind} are called ${nameOrId}: name one by its id, ${await withPlaces(client, kind, found)}`,
    );
  return first;
}

/** Ids of objects of one kind, each with its project and, if it is in one, its environment. */
async function withPlaces(client: Client, kind: CliKind, found: readonly ApiObject[]): Promise<string> {
  const inProject = found.filter((it) => typeof it['project_id'] === 'string');
  const projectIds = [...new Set(inProject.map((it) => String(it['project_id'])))];
  const all = await Promise.all([
    ...projectIds.map((it) => client.object('GET', `/api/v1/projects/${it}`).then((project) => [project])),
    ...(rowOfKind(kind).isInEnvironment
      ? projectIds.map((it) => client.list(`/api/v1/projects/${it}/environments`))
      : []),
  ]);
  const names = new Map(all.flat().map((it) => [it.id, it.name]));
  const placeOf = (it: ApiObject): string =>
    [it['project_id'], it['environment_id']].flatMap((place) => names.get(String(place)) ?? []).join('/');
  return found.map((it) => `${it.id} (${placeOf(it)})`).join(' or ');
}

const id = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** Whether the text names one deployment, by its id or as `APPLICATION/NUMBER`; otherwise it names an application. */
export function isDeploymentName(name: string): boolean {
  return id.test(name) || /\/\d+$/.test(name);
}

async function findDeployment(client: Client, nameOrId: string, project?: string): Promise<ApiObject> {
  if (id.test(nameOrId)) return client.object('GET', `/api/v1/deployments/${nameOrId}`);
  const [, application = '', number] = /^(.*?)(?:\/(\d+))?$/.exec(nameOrId) ?? [];
  const app = await findObject(client, 'applications', application, project);
  const all = await client.list(`/api/v1/applications/${app.id}/deployments`);
  const found = number === undefined ? all[0] : all.find((it) => String(it['number']) === number);
  if (found !== undefined) return found;
  throw new Error(`${application} has no deployment${number === undefined ? '' : ` ${number}`}`);
}

/** The names of some existing objects, for the error. */
function known(all: readonly ApiObject[]): string {
  const names = all.flatMap((it) => it.name ?? []).slice(0, 10);
  return names.length === 0 ? ': there is none' : `: there is ${names.join(', ')}`;
}

export function pathOf(kind: CliKind, it: ApiObject): string {
  if (kind === 'environments') return `/api/v1/projects/${String(it['project_id'])}/environments/${it.id}`;
  return `${rowOfKind(kind).path ?? `/api/v1/${kind}`}/${it.id}`;
}
