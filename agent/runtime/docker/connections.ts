import { readFile } from 'node:fs/promises';
import { SocketAddress } from 'node:net';
import type { ContainerRuntime, Listener } from '../runtime.ts';

/** States of TCP in which the other end may still send or get bytes, as /proc/net/tcp has them. */
const open: ReadonlySet<string> = new Set(['01', '03', '04', '08', '09', '0B']);
const listening = '0A';

/** Where the engine itself answers for names, in each container of a network of its own. */
const nameServer = '127.0.0.11';

interface Entry {
  local: string;
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
  return [{ local: local?.split(':')[0] ?? '', localPort, remote: address, state }];
}

/** Where programs listen in the network of a container, from the kernel's table. */
export const listeners: ContainerRuntime['listeners'] = async ({ pid }, signal) => {
  signal.throwIfAborted();
  if (pid === 0) return undefined;
  const [four, six] = await Promise.all(['tcp', 'tcp6'].map((name) => table(`/proc/${pid}/net/${name}`, signal)));
  // without a table of IPv4 the process has ended, or is not one of this machine
  return four === undefined || four === '' || six === undefined ? undefined : listenersIn(`${four}\n${six}`);
};

/** Returns where programs listen, from the text of the tables of a network. */
export function listenersIn(text: string): Listener[] {
  return text.split('\n').flatMap((line) =>
    entryOf(line).flatMap(({ local, localPort, state }) => {
      const address = addressOf(local);
      const port = Number.parseInt(localPort, 16);
      return state !== listening || address === undefined || address === nameServer ? [] : [{ address, port }];
    }),
  );
}

/** An address of the kernel's table, whose words of four bytes are in host order, as text. */
function addressOf(hex: string): string | undefined {
  const words = hex.match(/[0-9A-F]{8}/g) ?? [];
  const bytes = words.flatMap((word) => [...Buffer.from(word, 'hex')].toReversed());
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) return undefined;
  const groups = Array.from({ length: 8 }, (_, n) => Buffer.from(bytes.slice(2 * n, 2 * n + 2)).toString('hex'));
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address;
}

/** 127.0.0.0/8, also within IPv6, and ::1. */
function isLoopback(address: string): boolean {
  if (address.length === 8) return address.endsWith('7F');
  return address === '00000000000000000000000001000000' || /^0{16}FFFF0000.{6}7F$/.test(address);
}
