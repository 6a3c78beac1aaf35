import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { Controller } from '../controllers/runtime/controller.ts';
import { limits } from '../controllers/runtime/limits.ts';
import { startControllers } from '../controllers/runtime/manager.ts';
import type { Controllers } from '../controllers/runtime/manager.ts';
import { systemClock } from '../time/clock.ts';
import { startMirror } from '../store/store-mirror.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import type { Store } from '../store/store.ts';
import { startEtcd } from '../test/harness/etcd.ts';
import { until } from '../test/harness/until.ts';
import type { Bench, BenchContext } from './bench.ts';
import { throughput } from './measure.ts';
import type { Goal } from './measure.ts';
import { rawEtcd, rawSqlite } from './raw-transaction.ts';
import type { RawTransactions } from './raw-transaction.ts';

const objects = 2_000;

export const bench: Bench = {
  id: 'P7',
  async run(context) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    const sqlite = { unchanged: { atLeast: 20_000, of: 'ours' }, written: { atLeast: 4_000, of: 'ours' } } as const;
    try {
      await using raw = await rawSqlite();
      await measureStore(context, { name: 'SQLite in memory', url: 'sqlite::memory:', raw, goals: sqlite });
      const url = `sqlite:${join(folder, 'store.db')}`;
      await measureStore(context, { name: 'a SQLite file', url, raw, goals: sqlite });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    await using etcd = await startEtcd([], { onDisk: true });
    await using bare = await startEtcd([], { onDisk: true });
    await using raw = await rawEtcd(bare.host);
    const goals = { unchanged: sqlite.unchanged, written: { atLeast: 0.2 } };
    await measureStore(context, { name: 'etcd', url: `etcd://${etcd.host}`, raw, goals });
  },
};

async function measureStore(
  { compare }: BenchContext,
  {
    name,
    url,
    raw,
    goals,
  }: { name: string; url: string; raw: RawTransactions; goals: Record<'unchanged' | 'written', Goal> },
): Promise<void> {
  await using store = await openStore(url);
  await using rig = await startRig(store);
  await compare({
    what: `reconciles that change nothing, ${objects} objects on ${name}`,
    unit: 'per s',
    goal: goals.unchanged,
    ours: () => rig.pass(false),
  });
  await compare({
    what: `reconciles that write once each, ${objects} objects on ${name}; raw: transactions, as many at once`,
    unit: 'per s',
    goal: goals.written,
    raw: async () => (await throughput((client) => raw.replace(client), limits.queue.concurrency)).perSecond,
    ours: () => rig.pass(true),
  });
}

interface Rig extends AsyncDisposable {
  /** Reconciles every object once. Resolves with the objects per second. */
  pass(writing: boolean): Promise<number>;
}

async function startRig(store: Store): Promise<Rig> {
  await using starting = new AsyncDisposableStack();
  const log = pino({ level: 'silent' });
  const mirror = starting.use(startMirror({ store, clock: systemClock, log, freeze: false }));
  await mirror.ready;
  await createEnvironments(store);
  await mirror.reached(await store.revision(), AbortSignal.timeout(10_000));

  let phase: 'active' | 'deleting' = 'active';
  let left = 0;
  let done = Promise.withResolvers<void>();
  const controller: Controller<'environment'> = {
    name: 'bench',
    kind: 'environment',
    reads: [],
    children: [],
    wakes: [],
    async reconcile(it) {
      left -= 1;
      if (left === 0) done.resolve();
      return {
        observed: { phase },
        conditions: [{ type: 'Ready', status: 'true', reason: 'Bench', message: it.desired.name }],
        next: { settled: true },
      };
    },
  };
  const controllers: Controllers = starting.use(
    startControllers({
      store,
      mirror,
      clock: systemClock,
      random: Math.random,
      log,
      registry: new Registry(),
      replica: 'bench',
      controllers: [controller],
      background: [],
      strict: false,
      kinds: [],
    }),
  );
  left = objects;
  await until('the controllers lead', async () => controllers.isLeader);
  await done.promise;

  const running = starting.move();
  return {
    async pass(writing) {
      if (writing) phase = phase === 'active' ? 'deleting' : 'active';
      const before = await settled(store);
      left = objects;
      done = Promise.withResolvers();
      const start = performance.now();
      controllers.resync();
      await done.promise;
      // The last results are still being written.
      if (writing) await mirror.reached((before + objects) as typeof before, AbortSignal.timeout(10_000)); // one each
      return (objects * 1000) / (performance.now() - start);
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Returns the revision of the store once it does not change any more. */
async function settled(store: Store) {
  for (let before = await store.revision(); ;) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const now = await store.revision();
    if (now === before) return now;
    before = now;
  }
}

async function createEnvironments(store: Store): Promise<void> {
  const repository = openRepository(store, 'default', systemClock);
  const project = crypto.randomUUID();
  for (let from = 0; from < objects; from += 10) {
    const unit = repository.begin();
    for (let n = from; n < from + 10; n += 1) {
      const place = { project_id: project, type: 'production' };
      unit.create('environment', crypto.randomUUID(), { ...place, name: `environment-${n}` });
    }
    await unit.commit();
  }
}
