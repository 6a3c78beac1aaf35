import type { Clock } from '../../time/clock.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import type { EtcdServer } from './etcd.ts';

let etcd: EtcdServer | undefined;

/** Which etcd keeps the stores of this file's tests; `undefined`: memory does. */
export function keepStoresIn(server: EtcdServer | undefined): void {
  etcd = server;
}

/** An empty store for one world: in memory, or, where the same suite runs on etcd, all that etcd has. */
export async function emptyStore(clock: Clock): Promise<Store & AsyncDisposable> {
  if (etcd === undefined) return openSqlite({ path: ':memory:', clock });
  await etcd.clear();
  return openEtcd({ hosts: [etcd.host] });
}
