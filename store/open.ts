import { resolve } from 'node:path';
import type { Clock } from '../time/clock.ts';
import type { EtcdAccess } from './etcd/endpoints.ts';
import { openSqlite } from './sqlite/open.ts';
import type { Store } from './store.ts';

/** The clock drives the leases; the rest is for etcd: see `EtcdOptions`. */
export interface OpenOptions extends EtcdAccess {
  clock?: Clock;
  quotaBytes?: number;
}

/**
 * Opens the store that a URL names: `sqlite:PATH`, `sqlite::memory:` or `etcd://HOST:PORT,HOST:PORT`.
 *
 * @throws RangeError for another URL; Unavailable if the store cannot be reached or is held by another process.
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store & AsyncDisposable> {
  const { clock, ...access } = options;
  const withClock = clock === undefined ? {} : { clock };
  const path = after(url, 'sqlite:');
  if (path !== undefined) return openSqlite({ path, ...withClock });
  const hosts = after(url, 'etcd://')?.split(',');
  if (hosts?.every((host) => /^[^/\s]+:\d+$/.test(host)) === true) {
    // imported here: its client takes memory and time to load, which the embedded store does not need
    const { openEtcd } = await import('./etcd/open.ts');
    return openEtcd({ hosts, ...withClock, ...access });
  }
  throw new RangeError(`A store is named by sqlite:PATH or etcd://HOST:PORT,HOST:PORT: got "${url}"`);
}

/** The absolute path of the embedded store that a URL names; `undefined`: it is in etcd, or in memory. */
export function storeFile(url: string): string | undefined {
  const path = after(url, 'sqlite:');
  return path === undefined || path === ':memory:' ? undefined : resolve(path);
}

function after(url: string, scheme: string): string | undefined {
  return url.startsWith(scheme) && url.length > scheme.length ? url.slice(scheme.length) : undefined;
}
