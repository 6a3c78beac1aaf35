import { noInstallation, noMachines } from '../../harness/no-machines.ts';
import PQueue from 'p-queue';
import { pino } from 'pino';
import { backoff } from '../../../controllers/runtime/backoff.ts';
import type { Context, Verdict } from '../../../controllers/runtime/controller.ts';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { runs } from '../../../controllers/operation/runs.ts';
import { KeyedQueue } from '../../../controllers/runtime/queue.ts';
import { Since } from '../../../controllers/runtime/since.ts';
import { Waiters } from '../../../controllers/runtime/waiters.ts';
import { conflict, unavailable } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { openRepository } from '../../../store/repo.ts';
import { revision } from '../../../store/revision.ts';
import { backupDestinationController } from '../../../controllers/backup-destination/reconcile.ts';
import { startCandidate } from '../../harness/candidate.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { desiredState } from '../../harness/states.ts';
import { hangingMachines } from '../provision/hanging-machines.ts';
import { createProject, id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig, RigOptions } from '../runtime/rig.ts';
import { below, beyond, from, minute, second, upTo } from './row.ts';
import type { Row, Rows } from './row.ts';
import { hang, openTerm, overriding, projects, settled } from './scenes.ts';

const log = pino({ level: 'silent' });
const name = 'other';

/** Whether a candidate leads `n` ms after `meanwhile`; before that another one holds the key. */
async function leadsAfter(
  n: number,
  { random, meanwhile, mirror }: { random: number; meanwhile: (rig: Rig) => unknown; mirror?: 'deaf' },
): Promise<boolean> {
  await using rig = await openRig();
  await rig.rest();
  const held = { put: keys.leader(name), value: '{"replica":"first"}' };
  await rig.store.txn({ if: [], then: [held] });
  await rig.rest();
  const deaf = overriding(rig.mirror, { subscribeKeys: () => () => undefined });
  await using candidate = startCandidate(
    { store: rig.store, clock: rig.clock, mirror: mirror === 'deaf' ? deaf : rig.mirror },
    { name, replica: 'second', random: () => random },
  );
  await settle();
  await meanwhile(rig);
  await rig.store.txn({ if: [], then: [{ delete: held.put }] });
  await rig.clock.advance(n);
  return candidate.isLeading();
}

const leader: Rows<'leader'> = {
  ttlMs: from(10 * second, async (n) => {
    await using rig = await openRig();
    await rig.rest();
    const asked: number[] = [];
    const lease = rig.store.lease.bind(rig.store);
    rig.store.lease = (ttlMs) => {
      asked.push(ttlMs);
      return lease(ttlMs);
    };
    await using candidate = startCandidate(rig, { name, replica: 'first' });
    await candidate.term(0);
    return Math.max(...asked) <= n;
  }),
  jitterMs: from(300, (n) => leadsAfter(n, { random: 1, meanwhile: () => undefined })),
  failureMs: from(5 * second, (n) =>
    leadsAfter(n + 300, {
      random: 1,
      meanwhile({ store }) {
        const lease = store.lease.bind(store);
        store.lease = () => {
          store.lease = lease;
          throw unavailable('test');
        };
      },
    }),
  ),
  retryMs: from(10 * second, (n) => leadsAfter(n, { random: 0, meanwhile: () => undefined, mirror: 'deaf' })),
};

/** How often a project was reconciled; `each` says what becomes of each run, counted from 1. */
async function withProject<T>(
  each: (n: number, ctx: Context) => Verdict<'project'> | Promise<Verdict<'project'>>,
  then: (rig: Rig, runs: () => number) => Promise<T>,
  options: RigOptions = {},
): Promise<T> {
  let runs = 0;
  await using rig = await openRig({ ...options, controllers: [projects(async (_, ctx) => each(++runs, ctx))] });
  await createProject(rig.repo, 'one');
  await settle(50);
  return await then(rig, () => runs);
}

const reconcile: Rows<'reconcile'> = {
  deadlineMs: from(minute, async (n) => {
    let isOver = false;
    return withProject(
      (_, { signal }) => {
        signal.addEventListener('abort', () => (isOver = true));
        return hang(signal);
      },
      async (rig) => {
        await rig.clock.advance(n);
        return isOver;
      },
    );
  }),
  graceMs: from(5 * second, (n) =>
    withProject(
      () => new Promise(() => undefined),
      async (rig) => {
        await rig.clock.advance(minute + n);
        return (await rig.metric('setpoint_reconcile_stuck')) === 1;
      },
    ),
  ),
  backoffFirstMs: from(200, (n) => backoff(0, () => 1) <= n),
  backoffMaxMs: from(5 * minute, (n) => backoff(100, () => 1) <= n),
  conflictsAtOnce: upTo(3, (n) =>
    withProject(
      (run) => {
        if (run <= n) throw conflict('always');
        return settled;
      },
      async (rig, runs) => {
        await rig.rest();
        return runs() === n + 1;
      },
    ),
  ),
  againMinMs: from(50, (n) =>
    withProject(
      () => ({ ...settled, next: { again: 0, because: 'something to happen' } }),
      async (rig, runs) => {
        await rig.rest();
        const before = runs();
        await rig.clock.advance(n);
        return runs() > before;
      },
    ),
  ),
  resyncMs: from(10 * minute, (n) => isLookedAtAgain(n, 0.5)),
  resyncJitter: upTo(0.2, (share) => isLookedAtAgain(10 * minute * (1 - share), 0), 0.001),
};

async function isLookedAtAgain(afterMs: number, random: number): Promise<boolean> {
  return withProject(
    () => settled,
    async (rig, runs) => {
      await rig.rest();
      await rig.clock.advance(afterMs);
      return runs() === 2;
    },
    { random: () => random },
  );
}

/** How many of so many keys of one queue run before the key of another, where only one may run at a time. */
async function runsBeforeAnother(count: number, eachMs: number): Promise<number> {
  let now = 0;
  const clock = overriding(new FakeClock(), { monotonic: () => now });
  const pool = new PQueue({ concurrency: 1 });
  const order: string[] = [];
  const queue = (of: string): KeyedQueue =>
    new KeyedQueue({
      name: of,
      concurrency: 1,
      pool,
      clock,
      random: () => 0,
      log,
      run(key) {
        now += eachMs;
        order.push(key);
        return Promise.resolve({ after: 'nothing' });
      },
    });
  await using busy = queue('busy');
  await using other = queue('other');
  for (let n = 0; n < count; n++) busy.add(`busy ${n}`);
  other.add('other');
  await settle(200);
  return order.indexOf('other');
}

/** How many runs of one key begin within so much time, if each is followed by the next as soon as it may. */
async function runsOfOne(ms: number): Promise<number> {
  const clock = new FakeClock();
  let runs = 0;
  await using queue = new KeyedQueue({
    name: 'one',
    concurrency: 1,
    pool: new PQueue({ concurrency: 1 }),
    clock,
    random: () => 0,
    log,
    run() {
      runs++;
      return Promise.resolve({ after: 'delay', ms: 0, priority: 0 });
    },
  });
  queue.add('one');
  await settle(200);
  await clock.advance(ms);
  await settle(200);
  return runs;
}

const queue: Rows<'queue'> = {
  burst: upTo(20, async (n) => (await runsOfOne(0)) >= n),
  everyMs: from(100, async (n) => (await runsOfOne(n)) > 20),
  concurrency: upTo(8, async (n) => {
    let begun = 0;
    const controller = projects((_, { signal }) => {
      begun++;
      return hang(signal);
    });
    await using rig = await openRig({ controllers: [controller] });
    for (let m = 0; m < n; m++) await createProject(rig.repo, `p${m}`);
    await settle(50);
    return begun === n;
  }),
  total: upTo(72, async (n) => {
    const { rig, term, deps } = await openTerm();
    await using _ = rig;
    let begun = 0;
    for (let m = 0; m < n; m++)
      void deps.pool.add(() => {
        begun++;
        return hang(term.signal).catch(() => undefined);
      });
    await settle();
    return begun === n;
  }),
  slice: upTo(32, async (n) => (await runsBeforeAnother(n, 0)) === n),
  sliceMs: below(10, async (n) => (await runsBeforeAnother(2, n)) === 2),
  backgroundPriority: beyond(-100, async (n) => {
    const order: string[] = [];
    const controller = projects(async () => {
      order.push('first pass');
      return settled;
    });
    const { rig, deps } = await openTerm({ controllers: [controller] });
    await using _ = rig;
    await createProject(rig.repo, 'one');
    await rig.rest();
    order.length = 0;
    const [one, others] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    for (let m = 0; m < 72; m++) void deps.pool.add(() => (m === 0 ? one.promise : others.promise));
    rig.controllers.resync();
    await settle();
    void deps.pool.add(async () => void order.push('probe'), { priority: n });
    one.resolve();
    await rig.rest();
    others.resolve();
    return order[0] === 'probe';
  }),
};

const recentChanges: Row = from(1024, (n) => {
  const waiters = new Waiters();
  for (let m = 0; m < n; m++) waiters.changed(tenant, 'server', `other ${m}`, revision(2 + m));
  return waiters.changedSince(tenant, [{ kind: 'server', id: 'awaited' }], revision(1));
});

const since: Rows<'since'> = {
  names: upTo(32, (n) => {
    const kept = new Since(new FakeClock());
    const ask = (name: number): number => kept.ms('one', String(name), true);
    try {
      for (let m = 0; m < n; m++) ask(m);
      return true;
    } catch {
      return false;
    }
  }),
};

const noAgents = { call: () => Promise.reject(new Error('No agent is called')) };

const operations: Rows<'operations'> = {
  runMs: from(45 * second, async (n) => {
    const controller = operationController(
      { agents: noAgents, machines: noMachines, installation: noInstallation },
      { ...runs, sync: (_, { signal }) => hang(signal) },
    );
    await using rig = await openRig({ controllers: [controller] });
    const unit = rig.repo.begin();
    unit.create('operation', id('o'), { type: 'sync', requested_at: '', deadline_seconds: 3600 });
    await unit.commit();
    await settle(50);
    await rig.clock.advance(n);
    await settle(50);
    return (await rig.repo.get('operation', id('o')))?.observed?.phase === 'expired';
  }),
  atOnce: upTo(32, async (n) => {
    let begun = 0;
    const controller = operationController(
      { agents: noAgents, machines: noMachines, installation: noInstallation },
      {
        ...runs,
        sync(_, { signal }) {
          begun += 1;
          return hang(signal);
        },
      },
    );
    await using rig = await openRig({ controllers: [controller] });
    for (let m = 0; m < n; m++) {
      const unit = openRepository(rig.store, `tenant-${m}`, rig.clock).begin();
      unit.create('operation', id(`o${m}`), { type: 'sync', requested_at: '', deadline_seconds: 3600 });
      await unit.commit();
    }
    await settle(50);
    return begun === n;
  }),
  provisionings: upTo(8, async (n) => {
    await using machines = await hangingMachines();
    await machines.ask(n);
    return machines.visited.length === n;
  }),
};

const buckets: Rows<'buckets'> = {
  atOnce: upTo(12, async (n) => {
    let begun = 0;
    const controller = backupDestinationController({
      secrets: { unseal: () => 'opened' },
      probe(_place, _id, signal) {
        begun += 1;
        return hang(signal);
      },
      bucket: { sweep: () => Promise.resolve() },
    });
    await using rig = await openRig({ controllers: [controller] });
    for (let m = 0; m < n; m++) {
      const unit = openRepository(rig.store, `tenant-${m}`, rig.clock).begin();
      unit.create('backup_destination', id(`d${m}`), desiredState('backup_destination'));
      await unit.commit();
    }
    await settle(50);
    return begun === n;
  }),
};

export const runtimeRows = { leader, reconcile, queue, since, operations, buckets, recentChanges };
