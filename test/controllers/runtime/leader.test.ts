import PQueue from 'p-queue';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import type { Controller, Verdict } from '../../../controllers/runtime/controller.ts';
import { campaign, type Term } from '../../../controllers/runtime/leader.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { ControllerLoop } from '../../../controllers/runtime/loop.ts';
import { controllerMetrics } from '../../../controllers/runtime/metrics.ts';
import { conflictReason } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { createProject, id, openRig, tenant, type Rig } from './rig.ts';

const key = keys.leader('controllers');
const verdict: Verdict<'project'> = {
  observed: { phase: 'active' },
  conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
  next: { settled: true },
};

function projects(reconcile: Controller<'project'>['reconcile'] = async () => verdict): Controller<'project'> {
  return { name: 'project', kind: 'project', reads: [], children: ['environment'], wakes: [], reconcile };
}

/** A candidate that records its terms. */
function candidate(rig: Rig, name: string, clock = rig.clock) {
  const stop = new AbortController();
  const terms: Term[] = [];
  let held = 0;
  const done = campaign(
    {
      store: rig.store,
      mirror: rig.mirror,
      clock,
      random: () => 0.5,
      log: pino({ level: 'silent' }),
      name: 'other',
      replica: name,
    },
    (term) => {
      terms.push(term);
      held++;
      return new Promise((resolve) =>
        term.signal.addEventListener('abort', () => {
          held--;
          resolve();
        }),
      );
    },
    stop.signal,
  );
  return {
    terms,
    isLeading: () => held > 0,
    async stop() {
      stop.abort();
      await done;
    },
  };
}

test('a single replica leads at once, and its key does not move while it leads', async () => {
  await using rig = await openRig({ controllers: [projects()] });
  await rig.rest();
  expect(rig.controllers.isLeader).toBe(true);
  const taken = await rig.store.get(key);
  await rig.clock.advance(10 * limits.leader.ttlMs);
  expect(await rig.store.get(key)).toEqual(taken);
  expect(await rig.metric('setpoint_leader')).toBe(1);
});

test('of several candidates exactly one leads', async () => {
  await using rig = await openRig();
  const all = [candidate(rig, 'a'), candidate(rig, 'b'), candidate(rig, 'c')];
  for (let n = 0; n < 30; n++) {
    await rig.clock.advance(1000);
    expect(all.filter((it) => it.isLeading())).toHaveLength(1);
  }
  for (const it of all) await it.stop();
});

test('a leader that stops hands over without waiting for its lease', async () => {
  await using rig = await openRig();
  const a = candidate(rig, 'a');
  await settle();
  const b = candidate(rig, 'b');
  await rig.clock.advance(1000);
  expect([a.isLeading(), b.isLeading()]).toEqual([true, false]);
  await a.stop();
  await rig.clock.advance(limits.leader.jitterMs);
  expect(b.isLeading()).toBe(true);
  expect(b.terms[0]!.epoch).toBeGreaterThan(a.terms[0]!.epoch);
  await b.stop();
});

test('a leader whose key was taken away ends its term and its writes fail', async () => {
  await using rig = await openRig();
  const a = candidate(rig, 'a');
  await settle();
  const [term] = a.terms;
  await rig.store.txn({ if: [], then: [{ put: keys.leader('other'), value: '{"replica":"thief"}' }] });
  await settle();
  expect(term!.signal.aborted).toBe(true);
  const late = await rig.store.txn({ if: [term!.fence], then: [{ put: keys.meta('x'), value: '1' }] });
  expect(late.committed).toBe(false);
  await a.stop();
});

test('a candidate takes over when the key of a dead leader goes', async () => {
  await using rig = await openRig();
  const lease = await rig.store.lease(limits.leader.ttlMs);
  await rig.store.txn({
    if: [],
    then: [{ put: keys.leader('other'), value: '{"replica":"dead"}', lease: lease.id }],
  });
  const b = candidate(rig, 'b');
  await rig.clock.advance(5000);
  expect(b.isLeading()).toBe(false);
  await lease.revoke();
  await rig.clock.advance(limits.leader.jitterMs);
  expect(b.isLeading()).toBe(true);
  await b.stop();
});

const oldKey = keys.leader('old');

/** A leader that is not told that its term is over: its signal never aborts, the store alone knows. */
async function startDeposable(rig: Rig, controller: Controller<'project'>): Promise<AsyncDisposable> {
  const taken = await rig.store.txn({ if: [], then: [{ put: oldKey, value: '{}' }] });
  const term: Term = {
    epoch: taken.revision,
    fence: { key: oldKey, is: 'at', revision: taken.revision },
    signal: new AbortController().signal,
  };
  const loop = new ControllerLoop(controller, term, {
    store: rig.store,
    mirror: rig.mirror,
    clock: new FakeClock(),
    random: () => 0,
    log: pino({ level: 'silent' }),
    pool: new PQueue(),
    metrics: controllerMetrics(new Registry()),
    concurrency: 8,
    strict: true,
    repository: () => rig.repo,
    event: () => undefined,
    notify: async () => undefined,
  });
  loop.start();
  return loop;
}

async function depose(rig: Rig): Promise<void> {
  await rig.store.txn({ if: [], then: [{ put: oldKey, value: '{"replica":"successor"}' }] });
  rig.store.reset();
}

test('what a deposed leader writes fails, whatever it writes', async () => {
  const attempts: { name: string; error: unknown }[] = [];
  const arrived = Promise.withResolvers<void>();
  const resume = Promise.withResolvers<void>();
  let runs = 0;
  const controller = projects(async (it, ctx) => {
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
    for (const [name, write] of Object.entries(writes)) {
      try {
        await write();
        attempts.push({ name, error: undefined });
      } catch (error) {
        attempts.push({ name, error });
      }
    }
    return { ...verdict, observed: { phase: 'deleting' } };
  });
  await using rig = await openRig();
  const project = await createProject(rig.repo, 'one');
  const unit = rig.repo.begin();
  unit.create('environment', id('kept'), { project_id: project, name: 'kept', type: 'production' });
  await unit.commit();
  await rig.rest();
  await using _ = await startDeposable(rig, controller);
  await arrived.promise;
  await depose(rig);
  resume.resolve();
  await settle(50);
  expect(attempts.map(({ name }) => name)).toEqual(['ensure', 'amend', 'retire', 'waive']);
  for (const { error } of attempts) expect(conflictReason(error)).toEqual({ why: 'key', key: oldKey });
  expect(rig.store.committed).toBe(0);
  expect(rig.store.conflicts).toBeGreaterThanOrEqual(5);
  expect((await rig.repo.get('project', project))?.observed).toBeUndefined();
});

test('a deposed leader releases no finalizer', async () => {
  const arrived = Promise.withResolvers<void>();
  const resume = Promise.withResolvers<void>();
  const controller: Controller<'project'> = {
    ...projects(),
    async finalize() {
      arrived.resolve();
      await resume.promise;
      return { ...verdict, released: true };
    },
  };
  await using rig = await openRig();
  const project = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('project', project))!);
  await unit.commit();
  await rig.rest();
  await using _ = await startDeposable(rig, controller);
  await arrived.promise;
  await depose(rig);
  resume.resolve();
  await settle(50);
  expect(rig.store.committed).toBe(0);
  expect(rig.store.conflicts).toBeGreaterThanOrEqual(1);
  expect((await rig.repo.get('project', project))?.meta.finalizers).toEqual(['project']);
});

test('losing the leadership aborts the runs, and the next term begins with everything', async () => {
  const signals: AbortSignal[] = [];
  let hang = true;
  const controller = projects((_, ctx) => {
    signals.push(ctx.signal);
    if (!hang) return Promise.resolve(verdict);
    return new Promise((_resolve, reject) =>
      ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error)),
    );
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await settle(30);
  expect(signals).toHaveLength(1);
  hang = false;
  await rig.store.txn({ if: [], then: [{ delete: key }] });
  await rig.clock.advance(limits.leader.jitterMs);
  await rig.rest();
  expect(signals[0]!.aborted).toBe(true);
  expect(signals).toHaveLength(2);
  expect(rig.controllers.isLeader).toBe(true);
  expect((await rig.repo.get('project', id('one')))?.observed?.phase).toBe('active');
});

test('a controller hears of the beginning of each term', async () => {
  let begun = 0;
  await using rig = await openRig({ controllers: [{ ...projects(), begin: () => void begun++ }] });
  await rig.rest();
  expect(begun).toBe(1);
  await rig.store.txn({ if: [], then: [{ delete: key }] });
  await rig.rest();
  await rig.clock.advance(limits.leader.retryMs);
  expect(begun).toBe(2);
});

test('stopping drains the controllers, frees the key and leaves no timer behind', async () => {
  const controller = projects();
  const rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  const stopping = rig.controllers[Symbol.asyncDispose]();
  await settle();
  await stopping;
  expect(await rig.store.get(key)).toBeUndefined();
  expect(rig.clock.pending).toBe(0);
  await rig[Symbol.asyncDispose]();
});

test('a second replica takes over the work of the first', async () => {
  const first: string[] = [];
  const second: string[] = [];
  const record = (into: string[]) =>
    projects(async (it) => {
      into.push(it.meta.id);
      return verdict;
    });
  await using rig = await openRig({ controllers: [record(first)] });
  await rig.rest();
  const other = rig.replica('second', [record(second)]);
  const one = await createProject(rig.repo, 'one');
  await rig.rest();
  expect([first, second]).toEqual([[one], []]);
  await rig.controllers[Symbol.asyncDispose]();
  await rig.clock.advance(limits.leader.jitterMs);
  await rig.rest();
  const two = await createProject(rig.repo, 'two');
  await rig.rest();
  expect(other.isLeader).toBe(true);
  expect(first).toEqual([one]);
  expect(second.sort()).toEqual([one, two].sort());
  expect(rig.mirror.tenant(tenant).list('project')).toHaveLength(2);
});
