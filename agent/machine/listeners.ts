import { readFile } from 'node:fs/promises';
import { openFiles } from './open-files.ts';

/** A program that has a port of this machine. */
export interface PortUser {
  pid: number;
  /** As the kernel has it: the first 15 bytes of the name of its file. */
  name: string;
}

/** A row of a table of the kernel's sockets that wait for others at a port. */
interface Waiting {
  port: number;
  inode: string;
}

/** The kernel's numbers of the states in which a socket waits: over TCP it listens, over UDP it is not connected. */
const states = { tcp: '0A', udp: '07' } as const;
const lookMs = 5_000;

/** Ports of this machine, in its network namespace, at which a program listens over TCP. */
export async function listeningPorts(): Promise<Set<number>> {
  return new Set((await waiting('tcp')).map(({ port }) => port));
}

/**
 * The program that has the port, over TCP or else over UDP; `undefined` where none has, or it is not this one's to see:
 * only root sees the files of other users.
 */
export async function userOfPort(port: number): Promise<PortUser | undefined> {
  const signal = AbortSignal.timeout(lookMs);
  for (const protocol of ['tcp', 'udp'] as const) {
    const sockets = (await waiting(protocol))
      .filter((one) => one.port === port)
      .map(({ inode }) => `socket:[${inode}]`);
    if (sockets.length === 0) continue;
    const found = await programWith(sockets, signal).catch(() => undefined); // it has ended, or the look took too long
    if (found !== undefined) return found;
  }
  return undefined;
}

async function programWith(sockets: readonly string[], signal: AbortSignal): Promise<PortUser | undefined> {
  for await (const { pid, target } of openFiles(signal)) {
    if (!sockets.includes(target)) continue;
    const name = (await readFile(`/proc/${pid}/comm`, 'utf8')).trim();
    return { pid, name };
  }
  return undefined;
}

async function waiting(protocol: keyof typeof states): Promise<Waiting[]> {
  const tables = await Promise.all(
    [`/proc/net/${protocol}`, `/proc/net/${protocol}6`].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  return tables.flatMap((table) => parse(table, states[protocol]));
}

/** Reads /proc/net/tcp, /proc/net/udp, or the same of IPv6. */
function parse(text: string, wanted: string): Waiting[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      const port = Number.parseInt(local.split(':').at(-1) ?? '', 16);
      return state === wanted && Number.isInteger(port) ? [{ port, inode }] : [];
    });
}
