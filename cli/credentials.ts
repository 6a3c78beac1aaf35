import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { Connection } from './client.ts';

const Credentials = z.object({ server: z.url(), tenant: z.string(), token: z.string().optional() });

export function credentialsPath(): string {
  return join(homedir(), '.config', 'setpoint', 'credentials.json');
}

/** Keeps the connection for the next command; the file is readable by its owner alone and appears whole or not at all. */
export async function saveCredentials(connection: Connection, path = credentialsPath()): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, `${JSON.stringify(connection, null, 2)}\n`, { mode: 0o600 });
  await rename(partial, path);
}

/** The connection of the last login, overridden by what is given. @throws Error that says how to log in. */
export async function loadConnection(
  given: { server?: string; tenant?: string; token?: string },
  path = credentialsPath(),
): Promise<Connection> {
  const kept = await readKept(path);
  const server = given.server ?? kept?.server;
  if (server === undefined)
    throw new Error('No server is known: run `setpoint login --server URL --email ADDRESS`, or set SETPOINT_URL');
  const isSame = kept?.server === server && (given.tenant === undefined || given.tenant === kept.tenant);
  const token = given.token ?? (isSame ? kept.token : undefined);
  return { server, tenant: given.tenant ?? kept?.tenant ?? 'default', ...(token === undefined ? {} : { token }) };
}

async function readKept(path: string): Promise<z.infer<typeof Credentials> | undefined> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new Error(`Cannot read ${path}`, { cause: error });
  });
  if (text === undefined) return undefined;
  const parsed = Credentials.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`${path} is damaged: log in again`);
  return { ...parsed.data };
}
