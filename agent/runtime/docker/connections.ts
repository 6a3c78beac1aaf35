import { readFile } from 'node:fs/promises';
import type { ContainerRuntime } from '../runtime.ts';

/** States of TCP in which the other end may still send or get bytes, as /proc/net/tcp has them. */
const open: ReadonlySet<string> = new Set(['01', '03', '04', '08', '09', '0B']);
const listening = '0A';

interface Entry {
  localPort: string;
  remote: string;
  state: string;
}

/** Counts the connections of a container from the kernel's table of its network. */
export const connections: ContainerRuntime['connections'] = async ({ pid }, signal) => {
  signal.throwIfAborted();
  if (pid === 0) return 0;
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => table(`/proc/${pid}/net/${name}`, signal)));
  return tables.includes(undefined) ? undefined : openConnections(tables.join('\n'));
};

/** Returns an empty text for a process that has ended, or without IPv6; `undefined` if the table cannot be read. */
async function table(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return await readFile(path, { encoding: 'utf8', signal });
  } catch (error) {
    signal.throwIfAborted();
    const { code } = error as NodeJS.ErrnoException; // of a failed read
    return code === 'ENOENT' || code === 'ESRCH' || code === 'EINVAL' ? '' : undefined;
  }
}

/**
 * Returns how many connections from outside to its listening ports a network has, from the text of its tables. Those of
 * its own processes to each other do not count.
 */
export function openConnections(text: string): number {
  const entries = text.split('\n').flatMap(entryOf);
  const ports = new Set(entries.flatMap(({ state, localPort }) => (state === listening ? localPort : [])));
  return entries.filter((it) => open.has(it.state) && ports.has(it.localPort) && !isLoopback(it.remote)).length;
}

/** `  0: 0100007F:1F90 00000000:0000 0A …`: number, local and remote address with port, state; addresses in host order. */
function entryOf(line: string): Entry[] {
  const [, local, remote, state] = line.trim().split(/\s+/);
  const [, localPort] = local?.split(':') ?? [];
  const [address] = remote?.split(':') ?? [];
  if (localPort === undefined || address === undefined || state === undefined) return [];
  return [{ localPort, remote: address, state }];
}

/** 127.0.0.0/8, also within IPv6, and ::1. */
function isLoopback(address: string): boolean {
  if (address.length === 8) return address.endsWith('7F');
  return address === '00000000000000000000000001000000' || /^0{16}FFFF0000.{6}7F$/.test(address);
}
