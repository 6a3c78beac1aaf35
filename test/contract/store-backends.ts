import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEtcd } from '../../store/etcd/open.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { KeyRange, Store } from '../../store/store.ts';
import { startEtcd } from '../harness/etcd.ts';
import type { EtcdServer } from '../harness/etcd.ts';

/** What a case of the contract gets: a store, and a range of keys that nobody else uses. */
export interface Rig extends AsyncDisposable {
  store: Store;
  range: KeyRange;
  key: (name: string) => string;
}

export interface Backend {
  name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  rig(): Promise<Rig>;
}

/** Defines one test in a rig of its own. */
export type Case = (name: string, body: (rig: Rig) => Promise<void>) => void;

function rigOn(store: Store, prefix: string, dispose: () => Promise<void>): Rig {
  return {
    store,
    range: { prefix },
    key: (name) => `${prefix}${name}`,
    async [Symbol.asyncDispose]() {
      await store.close();
      await dispose();
    },
  };
}

const nothing = async (): Promise<void> => undefined;

const sqliteFile: Backend = {
  name: 'a SQLite file',
  start: nothing,
  stop: nothing,
  async rig() {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-sqlite-'));
    const store = await openSqlite({ path: join(folder, 'store.db') });
    return rigOn(store, '/case/', () => rm(folder, { recursive: true }));
  },
};

const sqliteMemory: Backend = {
  name: 'SQLite in memory',
  start: nothing,
  stop: nothing,
  rig: async () => rigOn(await openSqlite({ path: ':memory:' }), '/case/', nothing),
};

function etcd(): Backend {
  let server: EtcdServer;
  let rigs = 0;
  return {
    name: 'etcd',
    start: async () => {
      server = await startEtcd();
    },
    stop: () => server[Symbol.asyncDispose](),
    rig: async () => rigOn(await openEtcd({ hosts: [server.host] }), `/case-${++rigs}/`, nothing),
  };
}

export const backends: readonly Backend[] = [sqliteFile, sqliteMemory, etcd()];
