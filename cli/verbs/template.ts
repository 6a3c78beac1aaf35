import { z } from 'zod';
import type { ApiObject, Client } from '../client.ts';
import { contentOf } from '../file-content.ts';
import { findObject, pathOf } from '../objects.ts';
import { placeOf } from '../place.ts';
import { Plan, printPlan } from '../plan.ts';
import { printed } from '../printed.ts';
import { secretValues } from '../secrets.ts';
import { waiting } from '../settled.ts';
import { cell, table } from '../table.ts';
import { get } from './get.ts';

const Finding = z.object({ line: z.int(), column: z.int(), message: z.string() });
const Report = z.looseObject({
  valid: z.boolean(),
  errors: z.array(Finding),
  warnings: z.array(Finding),
  variables: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      required: z.boolean(),
      generated: z.boolean(),
      default: z.string().nullable(),
      description: z.string().nullable(),
    }),
  ),
  resources: z.array(z.object({ kind: z.string(), name: z.string(), wave: z.int() })),
});

/** Keeps the text of a file as a template, by the name that is given or that the text has. */
export async function createTemplate(
  client: Client,
  name: string | undefined,
  { file }: { file?: string },
): Promise<void> {
  if (file === undefined) throw new Error('A template is made of a text: name its file by --file');
  const body = { content: await contentOf(file), ...(name !== undefined && { name }) };
  const made = await client.object('POST', '/api/v1/templates', body);
  console.log(`template ${cell(made.name ?? made.id)} is created`);
}

export interface TemplatesOptions {
  file?: string;
  onConflict?: string;
  output?: string;
}

/** Lists templates, checks or imports the text of a file, or exports one. @throws Error for another action, or without a file */
export async function templates(
  client: Client,
  action: string,
  name: string | undefined,
  options: TemplatesOptions,
  signal: AbortSignal,
): Promise<void> {
  switch (action) {
    case 'list':
      await get(client, 'templates', name, {}, signal);
      return;
    case 'check':
      await check(client, options);
      return;
    case 'export': {
      if (name === undefined) throw new Error('Say which template: setpoint templates export NAME');
      const it = await findObject(client, 'templates', name);
      const answer = await client.request('GET', `${pathOf('templates', it)}/export`);
      console.log(await printed(answer, options.output === 'yaml' ? 'yaml' : 'json'));
      return;
    }
    case 'import': {
      const sent: unknown = JSON.parse(await contentOf(fileOf(options)));
      const body = z.record(z.string(), z.unknown()).parse(sent);
      const made = await client.object('POST', '/api/v1/templates/import', {
        ...body,
        ...(options.onConflict !== undefined && { on_conflict: options.onConflict }),
      });
      console.log(`template ${cell(made.name ?? made.id)} is imported`);
      return;
    }
    default:
      throw new Error(`Unknown action ${action}: use list, check, export or import`);
  }
}

function fileOf({ file }: TemplatesOptions): string {
  if (file === undefined) throw new Error('Name the file: --file FILE');
  return file;
}

/** Prints what the text of a file declares, and what is wrong with it. Exits with 1 if it is no template. */
async function check(client: Client, options: TemplatesOptions): Promise<void> {
  const file = fileOf(options);
  const body = { content: await contentOf(file) };
  const report = Report.parse(await client.request('POST', '/api/v1/templates/validate', body));
  if (!report.valid) process.exitCode = 1;
  if (options.output === 'json' || options.output === 'yaml') {
    console.log(await printed(report, options.output));
    return;
  }
  for (const [word, findings] of [
    ['error', report.errors],
    ['warning', report.warnings],
  ] as const)
    for (const { line, column, message } of findings)
      console.log(cell(`${file}:${line}:${column}: ${word}: ${message}`));
  if (!report.valid) return;
  const variables = report.variables.map((it) => [
    it.name,
    it.type,
    it.required ? 'needed' : it.generated ? 'generated' : `by default ${it.default ?? 'empty'}`,
    it.description ?? '',
  ]);
  if (variables.length > 0)
    console.log(
      table(
        ['variable', 'type', 'value', 'description'],
        variables.map((row) => row.map(cell)),
      ),
    );
  console.log(
    table(
      ['wave', 'kind', 'name'],
      report.resources.map(({ wave, kind, name }) => [String(wave + 1), kind, name]),
    ),
  );
}

export interface InstantiateOptions {
  project?: string;
  environment?: string;
  on?: string;
  name?: string;
  set?: Record<string, string>;
  /** Names of variables whose values are asked for. */
  secret?: readonly string[];
  wait?: boolean;
}

const Instance = z.looseObject({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  conditions: z.array(z.object({ type: z.string(), message: z.string() })),
  children: z.array(
    z.object({ kind: z.string(), name: z.string(), wave: z.int(), state: z.string(), message: z.string() }),
  ),
});

/** Makes what a template declares, and prints how far each part is. @throws Error if it was not all brought up */
export async function instantiate(client: Client, template: string, options: InstantiateOptions): Promise<void> {
  const it = await findObject(client, 'templates', template);
  const place = await placeOf(client, 'template instance', options);
  const environment: ApiObject | undefined =
    options.environment === undefined
      ? undefined
      : await findObject(client, 'environments', options.environment, options.project);
  const query = options.wait === false ? '' : `?${waiting}`;
  const answer = await client.request('POST', `${pathOf('templates', it)}/instantiate${query}`, {
    ...place,
    ...(environment !== undefined && { environment_id: environment.id }),
    ...(options.name !== undefined && { name: options.name }),
    variables: { ...options.set, ...(await secretValues(options.secret)) },
  });
  printInstance(Instance.parse(answer), options);
}

/** Prints how far each part of an instance is. @throws Error if it was waited for and is not all up */
function printInstance(made: z.infer<typeof Instance>, options: { wait?: boolean }): void {
  console.log(
    table(
      ['wave', 'kind', 'name', 'state', ''],
      made.children.map((child) =>
        [String(child.wave + 1), child.kind, child.name, child.state, child.state === 'up' ? '' : child.message].map(
          cell,
        ),
      ),
    ),
  );
  if (options.wait === false || made.status === 'running') {
    console.log(`template instance ${cell(made.name)} is ${made.status}`);
    return;
  }
  const why = made.conditions.find(({ type }) => type === 'Ready')?.message ?? '';
  throw new Error(`Template instance ${made.name} is ${made.status}: ${why}. It goes on when that is mended`);
}

export interface ChangeOptions {
  project?: string;
  dryRun?: boolean;
  force?: string[];
  wait?: boolean;
}

export interface UpgradeOptions extends ChangeOptions {
  template?: string;
  /** It keeps its text, and only values change. */
  keepText?: boolean;
  set?: Record<string, string>;
  /** Names of variables whose values are asked for. */
  secret?: readonly string[];
  drift?: string;
}

/** Brings an instance to the present text of its template, or of another one, and to other values. */
export async function upgrade(client: Client, name: string, options: UpgradeOptions): Promise<void> {
  const it = await findObject(client, 'template-instances', name, options.project);
  const template =
    options.template === undefined ? it['template_id'] : (await findObject(client, 'templates', options.template)).id;
  const variables = { ...options.set, ...(await secretValues(options.secret)) };
  await changeInstance(client, it, options, {
    method: 'PUT',
    path: '',
    body: {
      ...(options.keepText !== true && { template_id: template }),
      ...(Object.keys(variables).length > 0 && { variables }),
      ...(options.drift !== undefined && { drift: options.drift }),
    },
  });
}

/** Brings an instance back to a former revision. */
export async function rollBackInstance(
  client: Client,
  name: string,
  options: ChangeOptions & { to?: string },
): Promise<void> {
  const { to } = options;
  if (to !== undefined && !/^[1-9]\d{0,8}$/.test(to)) throw new Error(`--to must be a number: got ${to}`);
  const it = await findObject(client, 'template-instances', name, options.project);
  const body = to === undefined ? {} : { revision: Number(to) };
  await changeInstance(client, it, options, { method: 'POST', path: '/rollback', body });
}

const Changed = z.looseObject({ plan: Plan });

/** Prints the plan, which is made first, then does it. */
async function changeInstance(
  client: Client,
  it: ApiObject,
  { dryRun, force = [], wait }: ChangeOptions,
  { method, path, body }: { method: 'PUT' | 'POST'; path: string; body: object },
): Promise<void> {
  const at = `${pathOf('template-instances', it)}${path}`;
  const { plan } = Changed.parse(await client.request(method, at, { ...body, force, dry_run: true }));
  printPlan(plan);
  if (dryRun === true) return;
  const query = wait === false ? '' : `?${waiting}`;
  const answer = Instance.parse(await client.request(method, `${at}${query}`, { ...body, force }));
  printInstance(answer, { ...(wait !== undefined && { wait }) });
}

const Converted = z.looseObject({
  content: z.string(),
  keys: z.array(
    z.object({ path: z.string(), line: z.int(), column: z.int(), outcome: z.string(), message: z.string() }),
  ),
  report: z.object({ valid: z.boolean(), errors: z.array(Finding) }),
});

/** Prints a compose file as a template, and what became of its keys on standard error. */
export async function convertCompose(
  client: Client,
  { file, name, recogniseDatabases }: { file: string; name?: string; recogniseDatabases?: boolean },
): Promise<void> {
  const answer = await client.request('POST', '/api/v1/templates/convert-compose', {
    content: await contentOf(file),
    ...(name !== undefined && { name }),
    ...(recogniseDatabases === true && { recognise_databases: true }),
  });
  const { content, keys, report } = Converted.parse(answer);
  for (const { path, line, column, outcome, message } of keys)
    if (outcome !== 'kept') console.error(cell(`${file}:${line}:${column}: ${outcome}: ${path}: ${message}`));
  console.error(
    `${keys.filter(({ outcome }) => outcome === 'kept').length} of ${keys.length} keys are kept as they are`,
  );
  for (const { line, message } of report.errors)
    console.error(cell(`The template is to be completed: line ${line}: ${message}`));
  if (!report.valid) process.exitCode = 1;
  console.log(content.trimEnd());
}
