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

let isTaken = false;

/**
 * An empty store for one world: in memory, or, where the same suite runs on etcd, all that etcd has. So the tests of a
 * file have one world at a time, on both.
 */
export async function emptyStore(clock: Clock): Promise<Store & AsyncDisposable> {
  if (isTaken) throw new Error('Another world of this file has the store: dispose it first, or use another file');
  await etcd?.clear();
  const store = await (etcd === undefined ? openSqlite({ path: ':memory:', clock }) : openEtcd({ hosts: [etcd.host] }));
  isTaken = true;
  const close = store[Symbol.asyncDispose].bind(store);
  store[Symbol.asyncDispose] = async () => {
    isTaken = false;
    await close();
  };
  return store;
}
