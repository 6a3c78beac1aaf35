import { readdir, readFile, writeFile } from 'node:fs/promises';
import { BlockList } from 'node:net';
import { networkInterfaces } from 'node:os';
import { run } from '../machine/process.ts';
import type { Bridge } from './rules.ts';

/** Returns the interface of this machine whose network contains the address; `undefined` if there is none. */
export function bridgeOf(address: string): Bridge | undefined {
  for (const [name, addresses] of Object.entries(networkInterfaces())) {
    for (const own of addresses ?? []) {
      if (own.family !== 'IPv4' || own.internal || own.cidr === null) continue;
      const [base = '', bits = ''] = own.cidr.split('/');
      const network = new BlockList();
      network.addSubnet(base, Number(bits), 'ipv4');
      if (network.check(address, 'ipv4')) return { name, subnet: own.cidr };
    }
  }
  return undefined;
}

/**
 * Turns on hairpin mode for the bridge: a connection of an instance to a port of this machine may lead back to the same
 * instance. If /sys cannot be written, as in some containers, it uses netlink.
 * @throws Error if neither is permitted
 */
export async function reflect(name: string, signal: AbortSignal): Promise<void> {
  const folder = `/sys/class/net/${name}/brif`;
  for (const one of await readdir(folder).catch(() => [])) {
    const path = `${folder}/${one}/hairpin_mode`;
    try {
      await set(path, '1');
    } catch (error) {
      if ((await readFile(path, 'utf8').catch(() => '')).trim() !== '1') await setByNetlink(one, error, signal);
    }
  }
}

/** What `ip` prints for an interface that was removed, or is of no bridge any more. */
const left = /Cannot find device|does not exist|Operation not supported/i;

async function setByNetlink(attached: string, cause: unknown, signal: AbortSignal): Promise<void> {
  const args = ['link', 'set', 'dev', attached, 'type', 'bridge_slave', 'hairpin', 'on'];
  const { code, stderr } = await run('ip', { args, maxOutputBytes: 64 * 1024 }, signal);
  if (code !== 0 && !left.test(stderr))
    throw new Error(`Cannot set hairpin mode of ${attached}: ${stderr.trim().slice(0, 200)}`, { cause });
}

/**
 * Sets whether connections from 127.0.0.1 may leave by this interface and their answers may come back by it. Does
 * nothing if there is no such interface.
 */
export async function routeLoopback(name: string, routed: boolean): Promise<void> {
  await set(`/proc/sys/net/ipv4/conf/${name}/route_localnet`, routed ? '1' : '0');
}

/** Error codes of an interface that was removed: before the file was opened, or while it was open. */
const gone: readonly unknown[] = ['ENOENT', 'ENODEV'];

async function set(path: string, value: '0' | '1'): Promise<void> {
  try {
    await writeFile(path, value);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && gone.includes(error.code))) throw error;
  }
}
