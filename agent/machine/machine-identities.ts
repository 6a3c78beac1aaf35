import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { Server } from 'node:net';
import { join } from 'node:path';

/** Folder with the sockets of the machine's agents in all network namespaces. */
const identityFolder = '/run/setpoint/agents';

/** Prefixes of abstract sockets in /proc/net/unix. Like rules, these sockets belong to one network namespace. */
const identitySocket = 'setpoint-server-';
const dataSocket = 'setpoint-agent-';
const listening = '00010000';
const answerMs = 1_000;

/**
 * Shows other programs of the machine that an agent of this server runs, by sockets that close when the process ends,
 * for whatever reason. If the folder cannot be written, this works only within the network namespace.
 *
 * @throws Error if another agent of the machine has the same identity
 */
export async function holdIdentity(server: string, folder: string = identityFolder): Promise<AsyncDisposable> {
  await using starting = new AsyncDisposableStack();
  const path = join(folder, `${server}.sock`);
  try {
    starting.use(await listen(`\0${identitySocket}${server}`));
    if (await answers(path)) throw new Error('It answers');
  } catch (cause) {
    throw new Error(
      `Another agent of this machine has the identity of server ${server}, as its data directory was copied: stop one of them, and let it join as another server with an empty data directory`,
      {
        cause,
      },
    );
  }
  try {
    await mkdir(folder, { recursive: true, mode: 0o755 });
    await rm(path, { force: true });
    starting.use(await listen(path));
    await chmod(path, 0o600);
  } catch (error) {
    if (!isForbidden(error)) throw error;
  }
  return starting.move();
}

/** The agents that run on this machine. */
export interface Identities {
  /** Ids of their servers. */
  living: ReadonlySet<string>;
  /** True if agents of earlier releases run here, which do not show the id of their server. */
  unknown: boolean;
}

export async function identitiesHere(folder: string = identityFolder): Promise<Identities> {
  const names = await socketNames();
  const living = new Set(names.flatMap((name) => afterPrefix(name, identitySocket)));
  const unknown = names.filter((name) => name.startsWith(dataSocket)).length > living.size;
  const files = await readdir(folder).catch(() => []);
  for (const file of files)
    if (file.endsWith('.sock') && (await answers(join(folder, file)))) living.add(file.slice(0, -5));
  return { living, unknown };
}

function afterPrefix(name: string, prefix: string): string[] {
  return name.startsWith(prefix) ? [name.slice(prefix.length)] : [];
}

/** Returns the names of abstract sockets on which a process listens. */
async function socketNames(): Promise<string[]> {
  const text = await readFile('/proc/net/unix', 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const [, , , flags, , , , name] = line.split(/\s+/);
    return flags === listening && name?.startsWith('@') === true ? [name.slice(1).replace(/@+$/, '')] : [];
  });
}

async function listen(path: string): Promise<AsyncDisposable> {
  const server: Server = createServer((socket) => socket.destroy());
  server.listen(path);
  await once(server, 'listening');
  server.unref();
  return {
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

/** True if a process listens on the socket, or if that cannot be ruled out. */
async function answers(path: string): Promise<boolean> {
  const socket = connect(path);
  socket.setTimeout(answerMs, () => socket.destroy());
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ECONNREFUSED'));
  } finally {
    socket.destroy();
  }
}

/** True if the folder cannot be written. On a read-only file system, recursive `mkdir` can fail with ENOENT. */
function isForbidden(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && ['EACCES', 'EPERM', 'EROFS', 'ENOENT'].includes(String(error.code))
  );
}
