import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { z } from 'zod';
import type { Connection } from './client.ts';

const Kept = z.object({ server: z.url(), tenant: z.string(), token: z.string().optional() });
/** A stored login with its name. */
const Context = Kept.extend({ name: z.string(), email: z.string().optional() });
export type Context = z.infer<typeof Context>;

/** All stored logins; earlier releases stored only one, without a name. */
const Credentials = z.union([
  z.object({ current: z.string().optional(), contexts: z.array(Context) }),
  Kept.transform((one) => {
    const name = contextName(one);
    return { current: name, contexts: [{ ...one, name }] };
  }),
]);
export interface Credentials {
  current?: string | undefined;
  contexts: readonly Context[];
}

/** `$XDG_CONFIG_HOME/setpoint`, by default `~/.config/setpoint`. */
export function credentialsPath(configHome = process.env['XDG_CONFIG_HOME']): string {
  // the XDG specification ignores a relative path
  const base = configHome !== undefined && isAbsolute(configHome) ? configHome : join(homedir(), '.config');
  return join(base, 'setpoint', 'credentials.json');
}

/** The default name of a login: `HOST/TENANT`. */
export function contextName({ server, tenant }: Pick<Connection, 'server' | 'tenant'>): string {
  return `${new URL(server).host}/${tenant}`;
}

/** Stores a login and makes it the current one, which the next command uses. */
export async function saveContext(context: Context, path = credentialsPath()): Promise<void> {
  const { contexts } = await readCredentials(path);
  const others = contexts.filter(({ name }) => name !== context.name);
  await write({ current: context.name, contexts: [...others, context] }, path);
}

/** Makes a stored login the current one. @throws Error with the names of the stored ones. */
export async function chooseContext(name: string, path = credentialsPath()): Promise<Context> {
  const credentials = await readCredentials(path);
  const found = named(credentials, name);
  await write({ ...credentials, current: found.name }, path);
  return found;
}

/** Writes the file readable by its owner only, and atomically. */
async function write(credentials: Credentials, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600 });
  await rename(partial, path);
}

/** What the command line and the environment have of a connection. */
export interface Given {
  server?: string;
  tenant?: string;
  token?: string;
  context?: string;
}

/** The connection of a stored login, overridden by what is given. @throws Error with how to log in. */
export async function loadConnection(given: Given, path = credentialsPath()): Promise<Connection> {
  const credentials = await readCredentials(path);
  const kept = given.context === undefined ? keptFor(credentials, given) : named(credentials, given.context);
  const server = given.server ?? kept?.server;
  if (server === undefined)
    throw new Error('No server is known: run `setpoint login --server URL --email ADDRESS`, or set SETPOINT_URL');
  const isSame = kept?.server === server && (given.tenant === undefined || given.tenant === kept.tenant);
  const token = given.token ?? (isSame ? kept.token : undefined);
  return { server, tenant: given.tenant ?? kept?.tenant ?? 'default', ...(token === undefined ? {} : { token }) };
}

/** The current login, or another one that fits the given server and tenant. */
function keptFor({ current, contexts }: Credentials, { server, tenant }: Given): Context | undefined {
  const chosen = contexts.find(({ name }) => name === current);
  const fits = (one: Context): boolean =>
    (server === undefined || one.server === server) && (tenant === undefined || one.tenant === tenant);
  if (chosen !== undefined && fits(chosen)) return chosen;
  return contexts.find((one) => (server !== undefined || one.server === chosen?.server) && fits(one)) ?? chosen;
}

function named({ contexts }: Credentials, name: string): Context {
  const found = contexts.find((one) => one.name === name);
  if (found !== undefined) return found;
  const there = contexts.length === 0 ? 'none is kept: log in first' : contexts.map((one) => one.name).join(', ');
  throw new Error(`There is no context ${name}: ${there}`);
}

/** All stored logins. @throws Error for a file that cannot be read. */
export async function readCredentials(path = credentialsPath()): Promise<Credentials> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new Error(`Cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  });
  if (text === undefined) return { contexts: [] };
  const parsed = Credentials.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${path} is damaged: remove it, and log in again`);
  return parsed.data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
