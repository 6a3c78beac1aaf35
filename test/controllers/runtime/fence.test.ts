import PQueue from 'p-queue';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Controller, Verdict } from '../../../controllers/runtime/controller.ts';
import type { Term } from '../../../controllers/runtime/leader.ts';
import { ControllerLoop } from '../../../controllers/runtime/loop.ts';
import { controllerMetrics } from '../../../controllers/runtime/metrics.ts';
import { systemClock } from '../../../time/clock.ts';
import { conflictReason } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { startMirror } from '../../../store/store-mirror.ts';
import type { Mirror } from '../../../store/mirror.ts';
import { openRepository } from '../../../store/repo.ts';
import type { Repository } from '../../../store/repo.ts';
import { emptyStore, keepStoresIn } from '../../harness/api-store.ts';
import { startCandidate } from '../../harness/candidate.ts';
import { CountingStore } from '../../harness/counting-store.ts';
import { startEtcd } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';
import { until } from '../../harness/until.ts';
import { createProject, id, tenant } from './rig.ts';

const clock = systemClock;
const key = keys.leader('old');
const verdict: Verdict<'project'> = {
  observed: { phase: 'active' },
  conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
  next: { settled: true },
};
const projects: Controller<'project'> = {
  name: 'project',
  kind: 'project',
  reads: [],
  children: ['environment'],
  wakes: [],
  reconcile: async () => verdict,
};

interface World extends AsyncDisposable {
  store: CountingStore;
  mirror: Mirror;
  repo: Repository;
  clock: typeof clock;
}

async function openWorld(): Promise<World> {
  await using opening = new AsyncDisposableStack();
  const store = new CountingStore(opening.use(await emptyStore(clock)));
  const mirror = opening.use(startMirror({ store, clock, log: pino({ level: 'silent' }) }));
  await mirror.ready;
  const running = opening.move();
  const repo = openRepository(store, tenant, clock);
  return { store, mirror, repo, clock, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

/** Makes the mirror show all that is committed. */
async function seen({ store, mirror }: World): Promise<void> {
  await mirror.reached(await store.revision(), AbortSignal.timeout(10_000));
}

/** A leader that does not notice that its term is over: its signal never aborts, the store alone knows. */
async function startDeposable(world: World, controller: Controller<'project'>): Promise<AsyncDisposable> {
  const taken = await world.store.txn({ if: [], then: [{ put: key, value: '{}' }] });
  const term: Term = {
    epoch: taken.revision,
    fence: { key, is: 'at', revision: taken.revision },
    signal: new AbortController().signal,
  };
  const loop = new ControllerLoop(controller, term, {
    ...world,
    expiryTime: () => clock.now().getTime(),
    random: () => 0,
    log: pino({ level: 'silent' }),
    pool: new PQueue(),
    metrics: controllerMetrics(new Registry()),
    concurrency: 8,
    strict: true,
    repository: () => world.repo,
    event: () => undefined,
    notify: async () => undefined,
  });
  loop.start();
  return loop;
}

async function depose({ store }: World): Promise<void> {
  await store.txn({ if: [], then: [{ put: key, value: '{"replica":"successor"}' }] });
  store.reset();
}

describe.each(['SQLite', 'etcd'])('on %s', (name) => {
  let etcd: EtcdServer | undefined;

  beforeAll(async () => {
    etcd = name === 'etcd' ? await startEtcd() : undefined;
    keepStoresIn(etcd);
  });
  afterAll(async () => {
    keepStoresIn(undefined);
    await etcd?.[Symbol.asyncDispose]();
  });

  test('exactly one candidate leads, and when it stops another does, at a later epoch', async () => {
    await using world = await openWorld();
    await using stack = new AsyncDisposableStack();
    const all = ['a', 'b', 'c'].map((replica) => stack.use(startCandidate(world, { name: 'other', replica })));
    const epochs: number[] = [];
    for (let left = [...all]; left.length > 0;) {
      const terms = left.map(async (it) => ({ it, term: await it.term(0) }));
      const { it, term } = await Promise.race(terms);
      expect(all.filter((one) => one.isLeading())).toEqual([it]);
      epochs.push(term.epoch);
      await it.stop();
      left = left.filter((one) => one !== it);
    }
    expect(epochs).toEqual(epochs.toSorted((a, b) => a - b));
    expect(new Set(epochs).size).toBe(3);
  });

  test('a leader whose key was taken away ends its term, and its writes fail', async () => {
    await using world = await openWorld();
    await using a = startCandidate(world, { name: 'other', replica: 'a' });
    const term = await a.term(0);
    await world.store.txn({ if: [], then: [{ put: keys.leader('other'), value: '{"replica":"thief"}' }] });
    await until('the term is over', async () => term.signal.aborted);
    const late = await world.store.txn({ if: [term.fence], then: [{ put: keys.meta('x'), value: '1' }] });
    expect(late).toMatchObject({ committed: false, failed: [{ guard: term.fence }] });
  });

  test('what a deposed leader writes fails, whatever it writes', async () => {
    const attempts: { name: string; error: unknown }[] = [];
    const arrived = Promise.withResolvers<void>();
    const resume = Promise.withResolvers<void>();
    let runs = 0;
    const controller: Controller<'project'> = {
      ...projects,
      async reconcile(it, ctx) {
        if (++runs > 1) return verdict;
        arrived.resolve();
        await resume.promise;
        const writes = {
          ensure: () =>
            ctx.ensure('environment', id('env'), { project_id: it.meta.id, name: 'env', type: 'production' }, it),
          amend: () => ctx.amend('environment', id('kept'), (draft) => void (draft.name = 'changed')),
          retire: () => ctx.retire('environment', id('kept')),
          waive: () => ctx.waive('environment', id('kept'), 'environment'),
        };
        for (const [what, write] of Object.entries(writes)) {
          const error: unknown = await write().then(
            () => undefined,
            (thrown: unknown) => thrown,
          );
          attempts.push({ name: what, error });
        }
        return { ...verdict, observed: { phase: 'deleting' } };
      },
    };
    await using world = await openWorld();
    const project = await createProject(world.repo, 'one');
    const unit = world.repo.begin();
    unit.create('environment', id('kept'), { project_id: project, name: 'kept', type: 'production' });
    await unit.commit();
    await seen(world);
    await using _ = await startDeposable(world, controller);
    await arrived.promise;
    await depose(world);
    resume.resolve();
    // four writes of the run, and its verdict
    await until('everything was tried', async () => world.store.conflicts >= 5);
    expect(attempts.map((it) => it.name)).toEqual(['ensure', 'amend', 'retire', 'waive']);
    for (const { error } of attempts) expect(conflictReason(error)).toEqual({ why: 'key', key });
    expect(world.store.committed).toBe(0);
    expect((await world.repo.get('project', project))?.observed).toBeUndefined();
  });

  test('a deposed leader releases no finalizer', async () => {
    const arrived = Promise.withResolvers<void>();
    const resume = Promise.withResolvers<void>();
    const controller: Controller<'project'> = {
      ...projects,
      async finalize() {
        arrived.resolve();
        await resume.promise;
        return { ...verdict, released: true };
      },
    };
    await using world = await openWorld();
    const project = await createProject(world.repo, 'one');
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get('project', project))!);
    await unit.commit();
    await seen(world);
    await using _ = await startDeposable(world, controller);
    await arrived.promise;
    await depose(world);
    resume.resolve();
    await until('the release was tried', async () => world.store.conflicts >= 1);
    expect(world.store.committed).toBe(0);
    expect((await world.repo.get('project', project))?.meta.finalizers).toEqual(['project']);
  });
});
