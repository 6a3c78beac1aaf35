import { z } from 'zod';
import type { ApplicationManifest } from '../../manifests/application.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject, listObjects, pathOf } from '../objects.ts';
import { printed } from '../printed.ts';
import { cell, table } from '../table.ts';
import { followDeployment } from './deploy.ts';

const Reasons = z.array(z.object({ code: z.string(), message: z.string() }));
const Entry = z.object({
  kind: z.string(),
  name: z.string(),
  from: z.object({
    made_by: z.string().nullable(),
    group: z.string().nullable(),
    containers: z.array(z.string()),
    volume: z.string().nullable(),
  }),
  possible: z.string(),
  why: Reasons,
  notes: Reasons,
  steps: z.array(z.string()),
  env: z.array(z.string()),
  mounts: z.array(z.object({ volume: z.string(), path: z.string(), read_only: z.boolean() })),
  manifest: z.looseObject({ name: z.string() }).nullable(),
});
type Entry = z.infer<typeof Entry>;
const Adoption = z.looseObject({ plan: z.array(Entry), truncated: z.boolean() });

/** The fields that a declared application takes over from the body of a request. */
const Fields = z.object({
  app_type: z.enum(['web', 'worker']),
  source_type: z.literal('image'),
  image_url: z.string(),
  replicas: z.int(),
  exposed_port: z.int().optional(),
  healthcheck_path: z.string().optional(),
  restart_policy: z.string(),
  start_command: z.string().optional(),
  memory_limit: z.string().optional(),
  cpu_limit: z.string().optional(),
});

const TakenOver = z.looseObject({
  taken: z.array(
    z.object({ kind: z.string(), name: z.string(), id: z.string(), deployment_id: z.string().nullable() }),
  ),
  remaining: z.array(z.string()),
});
type TakenOver = z.infer<typeof TakenOver>;

export interface AdoptOptions {
  output?: string;
  project?: string;
  environment?: string;
  manifests?: boolean;
  take?: string[];
  deploy?: boolean;
  wait?: boolean;
}

const hintFor = (project = 'PROJECT'): string =>
  `--project ${cell(project)} --take NAME… --deploy takes entries over, with the values of their variables and their data. By hand it takes these steps:`;
const incomplete = 'There is more on the server than this shows: move a part of it, then look again';

/**
 * Prints what runs on a server that is not of Setpoint, and what would become of it; with `take`, makes that of it. @throws
 * Error if a deployment that was waited for did not succeed
 */
export async function adopt(client: Client, name: string, options: AdoptOptions, signal: AbortSignal): Promise<void> {
  const { output = 'text', take } = options;
  const project = projectOf(options);
  const server = await findObject(client, 'servers', name);
  const path = `${pathOf('servers', server)}/adopt`;
  const place = project === undefined ? undefined : await placeOf(client, project, options.environment);
  const where = place === undefined ? {} : { project_id: place.project.id, environment_id: place.environment.id };
  if (take !== undefined) {
    await takeOver(client, path, where, { ...options, take }, signal);
    return;
  }
  const adoption = Adoption.parse(await client.request('POST', path, where));
  if (options.manifests === true && place !== undefined)
    await printManifests(adoption.plan, server.name ?? name, place);
  else console.log(output === 'text' ? shown(adoption.plan, place?.project.name) : await printed(adoption, output));
  if (adoption.truncated && output === 'text') console.error(incomplete);
}

/** The project that the options are for. @throws Error if one needs another one that is not there */
function projectOf({ project, environment, take, manifests, deploy, wait }: AdoptOptions): string | undefined {
  if (take === undefined)
    for (const [option, isAsked] of Object.entries({ deploy, wait }))
      if (isAsked !== undefined) throw new Error(`--${option} is for what is taken over: name that by --take`);
  if (project === undefined)
    for (const [option, isAsked] of Object.entries({ take, manifests, environment }))
      if (isAsked !== undefined)
        throw new Error(`--${option} needs --project: the project that the applications will be of`);
  return project;
}

async function printManifests(plan: readonly Entry[], server: string, { project, environment }: Place): Promise<void> {
  const names = { server, project: project.name ?? project.id, environment: environment.name ?? environment.id };
  console.log(await declared(plan, names));
  const left = plan.filter(isNameTaken);
  if (left.length > 0) console.error(leftForNames(left));
}

interface Place {
  project: ApiObject;
  environment: ApiObject;
}

/** A project and one of its environments; without a name its default one. */
async function placeOf(client: Client, project: string, environment: string | undefined): Promise<Place> {
  const it = await findObject(client, 'projects', project);
  if (environment !== undefined)
    return { project: it, environment: await findObject(client, 'environments', environment, it.id) };
  const all = await listObjects(client, 'environments', it.id);
  const found = all.find((one) => one['is_default'] === true);
  if (found === undefined) throw new Error(`Project ${project} has no default environment: name one by --environment`);
  return { project: it, environment: found };
}

function isNameTaken({ kind, why }: Entry): boolean {
  return kind !== 'volume' && why.some(({ code }) => code === 'name_taken');
}

function leftForNames(left: readonly Entry[]): string {
  const names = left.map(({ name }) => cell(name)).join(', ');
  return `Left out, since setpoint apply would change what has these names or volumes already: ${names}`;
}

/** Prints what was made and what is left to do by hand, before it waits: a deployment can wait for one of these steps. */
async function takeOver(
  client: Client,
  path: string,
  where: object,
  { take, deploy = false, wait = false, output = 'text' }: AdoptOptions & { take: string[] },
  signal: AbortSignal,
): Promise<void> {
  const answer = TakenOver.parse(await client.request('POST', path, { ...where, take, deploy }));
  console.log(output === 'text' ? takenText(answer) : await printed(answer, output));
  if (!wait) return;
  // beside a document there is nothing else
  const print = output === 'text' ? console.log : console.error;
  const failures: string[] = [];
  for (const { name, id, deployment_id: deployment } of answer.taken) {
    if (deployment === null) continue;
    const app = await client.object('GET', `/api/v1/applications/${id}`);
    const it = await client.object('GET', `/api/v1/deployments/${deployment}`);
    print(`Deployment ${String(it['number'])} of ${cell(name)}: ${it.status ?? 'queued'}`);
    try {
      await followDeployment(client, app, it, signal, print);
    } catch (error) {
      if (signal.aborted || !(error instanceof Error)) throw error;
      failures.push(`${name}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new Error(failures.join('\n'));
}

function takenText({ taken, remaining }: TakenOver): string {
  const rows = taken.map((it) => [it.kind, it.name, it.id, it.deployment_id ?? '']);
  const made = table(['kind', 'name', 'id', 'deployment'], rows);
  if (remaining.length === 0) return made;
  return [
    made,
    '',
    'Left to do by hand, in this order:',
    ...remaining.map((step, at) => `  ${at + 1}. ${cell(step)}`),
  ].join('\n');
}

function shown(plan: readonly Entry[], project?: string): string {
  if (plan.length === 0) return 'Nothing runs on the server that is not of Setpoint';
  const rows = plan.map((it) => [
    it.kind,
    it.name,
    originOf(it),
    it.possible,
    it.why.map(({ code }) => code).join(' '),
  ]);
  const all = table(['kind', 'name', 'from', 'possible', 'why'], rows);
  return [
    all,
    ...(plan.some(({ manifest }) => manifest !== null) ? [hintFor(project)] : []),
    ...plan.map(detailOf),
  ].join('\n\n');
}

function originOf({ from }: Entry): string {
  const of = from.made_by === null || from.made_by === 'docker' ? '' : ` (${from.made_by} ${from.group ?? ''})`;
  return `${from.volume ?? from.containers.join(' ')}${of}`;
}

function detailOf({ kind, name, possible, why, notes, env, steps }: Entry): string {
  return [
    `${kind} ${cell(name)}: ${words[possible] ?? cell(possible)}`,
    ...why.map(({ code, message }) => `  ${cell(code)}: ${cell(message)}`),
    ...notes.map(({ code, message }) => `  note, ${cell(code)}: ${cell(message)}`),
    ...(env.length === 0 ? [] : [`  variables: ${cell(env.join(', '))}`]),
    ...steps.map((step, at) => `  ${at + 1}. ${cell(step)}`),
  ].join('\n');
}

const words: Readonly<Record<string, string>> = {
  yes: 'possible without a stop',
  with_a_stop: 'possible, with a stop',
  no: 'not possible as it is',
};

/** Names of where a declared application is. */
interface DeclaredPlace {
  server: string;
  project: string;
  environment: string;
}

/** The applications as a file for `setpoint apply`. What is to be written into it stands in comments. */
async function declared(plan: readonly Entry[], place: DeclaredPlace): Promise<string> {
  const wanted = plan.filter(({ kind }) => kind !== 'volume');
  const documents = await Promise.all(
    wanted.flatMap((it) => (it.manifest === null ? [] : [documentOf(it, it.manifest, place)])),
  );
  if (documents.length === 0)
    throw new Error(
      'Nothing on the server can become an application there as it is: setpoint adopt SERVER --project PROJECT shows why',
    );
  const left = wanted.filter(({ manifest }) => manifest === null).map(leftOut);
  return [...left, documents.join('\n---\n')].join('\n');
}

function leftOut({ name, why }: Entry): string {
  return `# ${cell(name)} is left out: ${cell(why.map(({ message }) => message).join('; '))}`;
}

async function documentOf(
  it: Entry,
  manifest: object,
  { server, project, environment }: DeclaredPlace,
): Promise<string> {
  const declaration: ApplicationManifest = {
    apiVersion: 'setpoint/v1',
    kind: 'Application',
    metadata: { name: it.name },
    spec: { project, environment, server, ...Fields.parse(manifest) },
  };
  const mounts = it.mounts.map(
    ({ volume, path }) => `# Bind volume ${cell(volume)} at ${cell(path)} before it is deployed`,
  );
  // the last field of the document is the spec, so that variables can go on it
  const variables = it.env.map((variable) => `  #   ${cell(variable)}: ''`);
  return [
    `# ${cell(it.name)}, from ${cell(originOf(it))}: ${words[it.possible] ?? cell(it.possible)}`,
    ...mounts,
    await printed(declaration, 'yaml'),
    ...(variables.length === 0 ? [] : ['  # Its variables: write their values here', '  # env:', ...variables]),
  ].join('\n');
}
