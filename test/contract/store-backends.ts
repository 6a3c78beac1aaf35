import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { systemClock, wait } from '../../time/clock.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { KeyRange, Store } from '../../store/store.ts';
import { startEtcd } from '../harness/etcd.ts';
import type { EtcdServer } from '../harness/etcd.ts';
import { FakeClock } from '../harness/fake-clock.ts';

/** What a case of the contract gets: a store, and a range of keys that nobody else uses. */
export interface Rig extends AsyncDisposable {
  store: Store;
  range: KeyRange;
  key: (name: string) => string;
  /** Lets so much of the time of leases pass. */
  pass: (ms: number) => Promise<void>;
  /** Makes every call fail until the function that is returned is called. */
  interrupt: () => Promise<() => void>;
}

export interface Backend {
  name: string;
  /** Whether a rig can be interrupted. */
  canFail: boolean;
  start(): Promise<void>;
  stop(): Promise<void>;
  rig(): Promise<Rig>;
}

/** Defines one test in a rig of its own. */
export type Case = (name: string, body: (rig: Rig) => Promise<void>) => void;

function rigOn(
  store: Store,
  prefix: string,
  { interrupt, pass }: Pick<Rig, 'interrupt' | 'pass'>,
  dispose: () => Promise<void> = nothing,
): Rig {
  return {
    store,
    interrupt,
    pass,
    range: { prefix },
    key: (name) => `${prefix}${name}`,
    async [Symbol.asyncDispose]() {
      await store.close();
      await dispose();
    },
  };
}

const impossible = async (): Promise<never> => {
  throw new Error('Memory does not fail');
};

const nothing = async (): Promise<void> => undefined;

const sqliteFile: Backend = {
  name: 'a SQLite file',
  canFail: true,
  start: nothing,
  stop: nothing,
  async rig() {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-sqlite-'));
    const clock = new FakeClock();
    const store = await openSqlite({ path: join(folder, 'store.db'), clock });
    // another process that writes the file
    const interrupt = async () => {
      const other = new DatabaseSync(join(folder, 'store.db'));
      other.exec('BEGIN IMMEDIATE');
      return () => other.close();
    };
    const time = { interrupt, pass: (ms: number) => clock.advance(ms) };
    return rigOn(store, '/case/', time, () => rm(folder, { recursive: true }));
  },
};

const sqliteMemory: Backend = {
  name: 'SQLite in memory',
  canFail: false,
  start: nothing,
  stop: nothing,
  async rig() {
    const clock = new FakeClock();
    const store = await openSqlite({ path: ':memory:', clock });
    return rigOn(store, '/case/', { interrupt: impossible, pass: (ms) => clock.advance(ms) });
  },
};

function etcd(): Backend {
  let server: EtcdServer;
  let rigs = 0;
  return {
    name: 'etcd',
    canFail: true,
    start: async () => {
      server = await startEtcd();
    },
    stop: () => server[Symbol.asyncDispose](),
    rig: async () =>
      rigOn(await openEtcd({ hosts: [server.host] }), `/case-${++rigs}/`, {
        interrupt: async () => {
          await server.freeze();
          return () => server.thaw();
        },
        // etcd counts by its own clock
        pass: (ms) => wait(systemClock, ms, new AbortController().signal),
      }),
  };
}

export const backends: readonly Backend[] = [sqliteFile, sqliteMemory, etcd()];
