import { z } from 'zod';
import { displayable } from '../../api/streams/log-frames.ts';
import type { ApiObject, Client } from '../client.ts';
import { contentOf } from '../file-content.ts';
import { findObject, pathOf } from '../objects.ts';
import { placeOf } from '../place.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';
import { age, table } from '../table.ts';

/** What the command sets of a function, beside limits and port. */
export interface FunctionOptions {
  runtime?: string;
  file?: string;
  dependencies?: string;
  schedule?: string;
  timezone?: string;
}

interface CreateOptions extends FunctionOptions {
  project?: string;
  on?: string;
  memory?: string;
  cpus?: string;
  exposed?: number;
}

/** Creates a function in a project, of the code in a file. @throws Error without a runtime or a file */
export async function createFunction(client: Client, name: string, options: CreateOptions): Promise<void> {
  const { runtime, file, memory, cpus, exposed } = options;
  if (runtime === undefined) throw new Error('Say what runs it: --runtime node20, python3, go, bun or deno');
  if (file === undefined) throw new Error('Name the file with its code: --file FILE');
  await client.request('POST', '/api/v1/functions', {
    ...(await placeOf(client, 'function', options)),
    name,
    runtime,
    ...(await changesOf(options)),
    ...(memory !== undefined && { memory_limit: memory }),
    ...(cpus !== undefined && { cpu_limit: cpus }),
    ...(exposed !== undefined && { exposed_port: exposed }),
  });
}

/** The fields of the code, the dependencies and the schedule that are given. */
async function changesOf({ file, dependencies, schedule, timezone }: FunctionOptions): Promise<object> {
  return {
    ...(file !== undefined && { code: await contentOf(file) }),
    ...(dependencies !== undefined && { dependencies: await contentOf(dependencies) }),
    ...(schedule !== undefined && {
      trigger_type: 'cron',
      schedule,
      ...(timezone !== undefined && { schedule_config: { timezone } }),
    }),
  };
}

interface Options extends FunctionOptions {
  project?: string;
  wait?: boolean;
  data?: string;
  method?: string;
  path?: string;
  number?: number;
  tail?: string;
}

/** Deploys, starts, stops or calls a function, or prints its calls, its versions or what it wrote. */
export async function fn(client: Client, action: string, name: string, options: Options): Promise<void> {
  const it = await findObject(client, 'functions', name, options.project);
  switch (action) {
    case 'deploy':
      return deploy(client, it, options);
    case 'start':
    case 'stop':
      return turn(client, it, action, options);
    case 'invoke':
      return invoke(client, it, options);
    case 'executions':
      return executions(client, it);
    case 'versions':
      return versions(client, it);
    case 'logs':
      return logs(client, it, options);
    default:
      throw new Error(`Cannot ${action} a function: deploy, start, stop, invoke, executions, versions or logs`);
  }
}

async function deploy(client: Client, it: ApiObject, options: Options): Promise<void> {
  const changes = await changesOf(options);
  if (Object.keys(changes).length > 0) await client.request('PUT', pathOf('functions', it), changes);
  if (options.number === undefined) return turn(client, it, 'deploy', options);
  const version = await versionOf(client, it, options.number);
  return turn(client, it, `versions/${version.id}/deploy`, options);
}

async function versionOf(client: Client, it: ApiObject, number: number): Promise<ApiObject> {
  const all = await client.list(`${pathOf('functions', it)}/versions`);
  const found = all.find((one) => one['number'] === number);
  if (found !== undefined) return found;
  throw new Error(`${String(it.name)} has no version ${number}: ${all.map((one) => String(one['number'])).join(', ')}`);
}

/** Requests a change and prints the result. @throws Error with the reason if the function does not come to that */
async function turn(client: Client, it: ApiObject, what: string, { wait }: Options): Promise<void> {
  const path = `${pathOf('functions', it)}/${what}${wait === false ? '' : `?${waiting}`}`;
  const after = await whileServerIsAway(client, it, client.object('POST', path, {}));
  const ready = after.conditions?.find((one) => one.type === 'Ready');
  const is = `function ${String(it.name)} is ${after.status ?? 'unknown'}`;
  const isThere = what === 'stop' ? after.status === 'stopped' : after.status === 'running' && ready?.status === 'true';
  if (wait !== false && (!isThere || openEnd(after) !== undefined))
    throw new Error(`${is}: ${openEnd(after) ?? ready?.message ?? 'the reason is not known'}`);
  console.log(is);
  if (what !== 'stop' && typeof after['url'] === 'string') console.log(after['url']);
}

const Called = z.object({
  execution: z.object({
    status: z.string(),
    duration_ms: z.number().nullable(),
    cold_start: z.boolean(),
    error: z.object({ message: z.string() }).nullable(),
  }),
  answer: z.object({ status: z.int(), body: z.string().nullable(), body_base64: z.string() }).nullable(),
});

/** Prints what the function answers on standard output, and how it went on standard error. */
async function invoke(client: Client, it: ApiObject, { data, method, path }: Options): Promise<void> {
  const body = data?.startsWith('@') === true ? await contentOf(data.slice(1)) : data;
  const answer = await client.request('POST', `${pathOf('functions', it)}/invoke`, {
    ...(body !== undefined && { body }),
    ...(method !== undefined && { method }),
    ...(path !== undefined && { path }),
  });
  const { execution, answer: given } = Called.parse(answer);
  const cold = execution.cold_start ? ', with the start of an instance' : '';
  if (given === null) throw new Error(execution.error?.message ?? `The call is ${execution.status}`);
  console.error(`${given.status} in ${execution.duration_ms ?? 0} ms${cold}`);
  if (given.body === null) process.stdout.write(Buffer.from(given.body_base64, 'base64'));
  else console.log(displayable(given.body));
  if (execution.status !== 'succeeded') process.exitCode = 1;
}

const Executions = z.array(
  z.object({
    id: z.string(),
    trigger: z.string(),
    status: z.string(),
    started_at: z.string(),
    duration_ms: z.number().nullable(),
    cold_start: z.boolean(),
    http: z.object({ method: z.string(), path: z.string(), status_code: z.number().nullable() }).nullable(),
    error: z.object({ message: z.string() }).nullable(),
  }),
);

async function executions(client: Client, it: ApiObject): Promise<void> {
  const all = Executions.parse(await client.list(`${pathOf('functions', it)}/executions`));
  const now = new Date();
  const rows = all.map((one) => [
    age(one.started_at, now),
    one.trigger,
    one.status,
    one.http === null ? '' : `${one.http.method} ${one.http.path} ${one.http.status_code ?? ''}`,
    one.duration_ms === null ? '' : `${one.duration_ms} ms`,
    one.cold_start ? 'yes' : '',
    one.error?.message ?? '',
  ]);
  console.log(table(['age', 'trigger', 'status', 'request', 'took', 'cold', 'message'], rows));
}

async function versions(client: Client, it: ApiObject): Promise<void> {
  const all = await client.list(`${pathOf('functions', it)}/versions`);
  const now = new Date();
  const Fault = z.object({ message: z.string() }).nullable();
  const rows = all.map((one) => [
    String(one['number']),
    one.status ?? '',
    one['is_active'] === true ? 'yes' : '',
    age(one.created_at, now),
    Fault.parse(one['error'])?.message ?? '',
  ]);
  console.log(table(['number', 'status', 'active', 'age', 'message'], rows));
}

const Lines = z.object({
  lines: z.array(z.object({ timestamp: z.string(), stream: z.string(), message: z.string() })),
});

/** Prints what its instances wrote; with a version, how that was built. */
async function logs(client: Client, it: ApiObject, { number, tail = '200' }: Options): Promise<void> {
  const of = number === undefined ? '' : `/versions/${(await versionOf(client, it, number)).id}`;
  const answer = await client.request('GET', `${pathOf('functions', it)}${of}/logs?tail=${tail}`);
  for (const { timestamp, stream, message } of Lines.parse(answer).lines)
    (stream === 'stderr' ? console.error : console.log)(`${timestamp} ${displayable(message)}`);
}
