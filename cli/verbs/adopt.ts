import { z } from 'zod';
import type { ApplicationManifest } from '../../manifests/application.ts';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { printed } from '../printed.ts';
import { cell, table } from '../table.ts';

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

interface Options {
  output?: string;
  project?: string;
  manifests?: boolean;
}

const incomplete = 'There is more on the server than this shows: move a part of it, then look again';

/** Prints what runs on a server that is not of Setpoint, and what would become of it. Changes nothing. */
export async function adopt(client: Client, name: string, options: Options): Promise<void> {
  const { output = 'text', manifests = false, project = 'PROJECT' } = options;
  const server = await findObject(client, 'servers', name);
  const adoption = Adoption.parse(await client.request('POST', `${pathOf('servers', server)}/adopt`, {}));
  if (manifests) console.log(declared(adoption.plan, { server: server.name ?? name, project }));
  else console.log(output === 'text' ? shown(adoption.plan) : printed(adoption, output));
  if (adoption.truncated && output === 'text') console.error(incomplete);
}

function shown(plan: readonly Entry[]): string {
  if (plan.length === 0) return 'Nothing runs on the server that is not of Setpoint';
  const rows = plan.map((it) => [
    it.kind,
    it.name,
    originOf(it),
    it.possible,
    it.why.map(({ code }) => code).join(' '),
  ]);
  return [table(['kind', 'name', 'from', 'possible', 'why'], rows), ...plan.map(detailOf)].join('\n\n');
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

/** The applications as a file for `setpoint apply`. What is to be written into it stands in comments. */
function declared(plan: readonly Entry[], place: { server: string; project: string }): string {
  const wanted = plan.filter(({ kind }) => kind !== 'volume');
  const documents = wanted.flatMap((it) => (it.manifest === null ? [] : [documentOf(it, it.manifest, place)]));
  if (documents.length === 0)
    throw new Error('Nothing on the server can become an application as it is: setpoint adopt SERVER shows why');
  const left = wanted.filter(({ manifest }) => manifest === null).map(leftOut);
  return [...left, documents.join('\n---\n')].join('\n');
}

function leftOut({ name, why }: Entry): string {
  return `# ${cell(name)} is left out: ${cell(why.map(({ message }) => message).join('; '))}`;
}

function documentOf(it: Entry, manifest: object, { server, project }: { server: string; project: string }): string {
  const declaration: ApplicationManifest = {
    apiVersion: 'setpoint/v1',
    kind: 'Application',
    metadata: { name: it.name },
    spec: { project, environment: 'production', server, ...Fields.parse(manifest) },
  };
  const mounts = it.mounts.map(
    ({ volume, path }) => `# Bind volume ${cell(volume)} at ${cell(path)} before it is deployed`,
  );
  // the last field of the document is the spec, so that variables can go on it
  const variables = it.env.map((variable) => `  #   ${cell(variable)}: ''`);
  return [
    `# ${cell(it.name)}, from ${cell(originOf(it))}: ${words[it.possible] ?? cell(it.possible)}`,
    ...mounts,
    printed(declaration, 'yaml'),
    ...(variables.length === 0 ? [] : ['  # Its variables: write their values here', '  # env:', ...variables]),
  ].join('\n');
}
