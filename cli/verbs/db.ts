import { z } from 'zod';
import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { placeOf } from '../place.ts';
import { Secrets } from '../secrets.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';
import { openTerminal } from './exec.ts';
import { logs } from './logs.ts';
import { importDump } from './import-dump.ts';
import { printWindow } from './recover.ts';
import { connectDatabase } from './tunnel.ts';

export interface DatabaseOptions {
  type?: string;
  engineVersion?: string;
  memory?: string;
  cpus?: string;
  exposed?: number;
  pooling?: boolean;
  requireTls?: boolean;
}

/** What the command changes of a database. `none` takes a limit or the port away. */
export interface DatabaseChange {
  memory?: string;
  cpus?: string;
  exposed?: number | 'none';
  pooling?: 'on' | 'off';
  requireTls?: 'on' | 'off';
}

/** How the writes of a database are archived. */
export interface ArchiveOptions {
  /** Name of a destination. */
  to?: string;
  /** Base backups that stay. */
  keep?: number;
  /** A cron expression. */
  every?: string;
}

interface Options extends ArchiveOptions {
  project?: string;
  wait?: boolean;
  tail?: string;
  password?: boolean;
  port?: number;
  file?: string;
  url?: string;
  path?: string;
  yes?: boolean;
}

const Credentials = z.object({
  username: z.string(),
  password: z.string(),
  database: z.string(),
  connection_string: z.string().nullable(),
  internal_connection_string: z.string(),
  /** A control plane of an earlier release says nothing of it. */
  pooled_connection_string: z.string().nullish(),
  ca: z.string().nullish(),
});

/** Creates a database in a project. @throws Error without a type, or without a server where the project has none */
export async function createDatabase(
  client: Client,
  name: string,
  options: DatabaseOptions & { project?: string; on?: string },
): Promise<void> {
  const { type, engineVersion, memory, cpus, exposed, pooling, requireTls } = options;
  if (type === undefined)
    throw new Error('Say which database it is: --type postgres, mysql, mariadb, redis or mongodb');
  await client.request('POST', '/api/v1/databases', {
    ...(await placeOf(client, 'database', options)),
    name,
    type,
    ...(engineVersion !== undefined && { version: engineVersion }),
    ...(memory !== undefined && { memory_limit: memory }),
    ...(cpus !== undefined && { cpu_limit: cpus }),
    ...(exposed !== undefined && { exposed_port: exposed }),
    ...(pooling === true && { connection_pooling: true }),
    ...(requireTls === true && { require_tls: true }),
  });
}

/** Changes limits, port, pooling, TLS or name of a database, which is restarted where that is needed. */
export async function setDatabase(
  client: Client,
  path: string,
  renamed: object,
  { memory, cpus, exposed, pooling, requireTls }: DatabaseChange,
): Promise<void> {
  const orNull = <T>(value: T): T | null => (value === 'none' ? null : value);
  await client.request('PUT', path, {
    ...renamed,
    ...(memory !== undefined && { memory_limit: orNull(memory) }),
    ...(cpus !== undefined && { cpu_limit: orNull(cpus) }),
    ...(exposed !== undefined && { exposed_port: orNull(exposed) }),
    ...(pooling !== undefined && { connection_pooling: pooling === 'on' }),
    ...(requireTls !== undefined && { require_tls: requireTls === 'on' }),
  });
}

/** Starts, stops or restarts a database, changes its password or parameters, prints how clients log in or what it wrote, opens its client, or leads to it. */
export async function db(
  client: Client,
  action: string,
  name: string,
  values: readonly string[],
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  if (action === 'connect') return connectDatabase(client, name, options, signal);
  const it = await findObject(client, 'databases', name, options.project);
  const path = pathOf('databases', it);
  if (values.length > 0 && action !== 'parameters')
    throw new Error(`Cannot ${action} a database with ${values.join(' ')}`);
  switch (action) {
    case 'start':
    case 'stop':
    case 'restart':
      return turn(client, it, action, options);
    case 'credentials':
      return credentials(client, path);
    case 'parameters':
      return parameters(client, it, values, options);
    case 'rotate-password':
      return rotatePassword(client, it, options);
    case 'window':
      return printWindow(client, path, name);
    case 'import':
      return importDump(client, it, options);
    case 'archive':
    case 'unarchive':
      return setArchive(client, path, name, action === 'archive' ? options : undefined);
    case 'logs':
      return logs(client, 'database', name, { ...options, tail: options.tail ?? '200' }, signal);
    case 'shell':
      await openTerminal(client, `${path}/terminal`, {}, signal);
      return;
    default:
      throw new Error(
        `Cannot ${action} a database: start, stop, restart, credentials, connect, rotate-password, parameters, import, archive, unarchive, window, logs or shell`,
      );
  }
}

async function credentials(client: Client, path: string): Promise<void> {
  const all = Credentials.parse(await client.request('GET', `${path}/credentials`));
  console.log(`user        ${all.username}`);
  console.log(`password    ${all.password}`);
  console.log(`database    ${all.database}`);
  console.log(`inside      ${all.internal_connection_string}`);
  if (typeof all.pooled_connection_string === 'string') console.log(`pooled      ${all.pooled_connection_string}`);
  if (all.connection_string !== null) console.log(`outside     ${all.connection_string}`);
  if (typeof all.ca === 'string') console.log(`ca\n${all.ca.trimEnd()}`);
}

const Named = z.array(z.object({ name: z.string() }));
const Rotated = z.object({ name: z.string(), applications: Named, functions: Named.default([]) });

async function rotatePassword(client: Client, it: ApiObject, options: Options): Promise<void> {
  await using secrets = new Secrets();
  const body = options.password === true ? { password: await secrets.next('Password') } : {};
  const query = options.wait === false ? '' : `?${waiting}`;
  const answer = client.object('POST', `${pathOf('databases', it)}/rotate-password${query}`, body);
  const after = await whileServerIsAway(client, it, answer);
  const { name, applications, functions } = Rotated.parse(after);
  const open = openEnd(after);
  if (options.wait !== false && open !== undefined)
    throw new Error(`database ${name} has its former password until it was started anew: ${open}`);
  console.log(`database ${name} ${options.wait === false ? 'gets' : 'has'} another password`);
  const names = [...applications, ...functions].map((one) => one.name).join(', ');
  if (names === '') return;
  console.log(`These have the former one until they are deployed: ${names}`);
}

const Parameters = z.object({ parameters: z.record(z.string(), z.string()) });

/** Prints the parameters, or changes those that are given: one without a value gets its usual one back. */
async function parameters(client: Client, it: ApiObject, values: readonly string[], options: Options): Promise<void> {
  const path = pathOf('databases', it);
  if (values.length === 0) {
    for (const [name, value] of Object.entries(Parameters.parse(it).parameters)) console.log(`${name}=${value}`);
    return;
  }
  const change = values.map((text) => {
    const at = text.indexOf('=');
    if (at < 1) throw new Error(`Must be NAME=VALUE, or NAME= for its usual value: ${text}`);
    return [text.slice(0, at), text.slice(at + 1) || null] as const;
  });
  const query = options.wait === false ? '' : `?${waiting}`;
  const answer = client.object('PUT', `${path}${query}`, { parameters: Object.fromEntries(change) });
  const after = await whileServerIsAway(client, it, answer);
  const name = String(after.name);
  const open = options.wait === false ? undefined : openEnd(after);
  if (open !== undefined) {
    const condition = after.conditions?.find((one) => one.type === 'Ready');
    throw new Error(`database ${name} does not run with these parameters: ${condition?.message ?? open}`);
  }
  console.log(`database ${name} ${options.wait === false ? 'gets' : 'has'} these parameters`);
}

/** Has the writes of a database archived; without options, not any more. */
async function setArchive(
  client: Client,
  path: string,
  name: string,
  options: ArchiveOptions | undefined,
): Promise<void> {
  if (options === undefined) {
    await client.object('PUT', path, { pitr_enabled: false });
    console.log(`database ${name} restarts, and what it writes is not archived any more`);
    return;
  }
  const { to, keep, every } = options;
  const destination = to === undefined ? undefined : await findObject(client, 'backup-destinations', to);
  await client.object('PUT', path, {
    backup_mode: 'pitr',
    ...(destination !== undefined && { backup_destination_id: destination.id }),
    ...(keep !== undefined && { backup_retention_count: keep }),
    ...(every !== undefined && { backup_schedule: every }),
  });
  console.log(`database ${name} restarts, and what it writes from then on is archived`);
}

/** Starts, stops or restarts a database. @throws Error with the reason if it does not come to that */
async function turn(
  client: Client,
  it: ApiObject,
  action: 'start' | 'stop' | 'restart',
  options: Options,
): Promise<void> {
  const query = options.wait === false ? '' : `?${waiting}`;
  const after = await whileServerIsAway(
    client,
    it,
    client.object('POST', `${pathOf('databases', it)}/${action}${query}`, {}),
  );
  const goal = action === 'stop' ? 'stopped' : 'running';
  const is = `database ${String(it.name)} is ${after.status ?? 'unknown'}`;
  if (options.wait !== false && (after.status !== goal || openEnd(after) !== undefined)) {
    const condition = after.conditions?.find((one) => one.type === 'Ready');
    throw new Error(`${is}: ${openEnd(after) ?? condition?.message ?? 'the reason is not known'}`);
  }
  console.log(is);
}
