import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { Context, Controller, Verdict } from '../../../controllers/runtime/controller.ts';
import { Failure, Stalled } from '../../../controllers/runtime/failure.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { conflict, tooLarge, unavailable } from '../../../store/errors.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { settle } from '../../harness/fake-clock.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { onChild } from '../../../controllers/runtime/wakes.ts';
import { createProject, id, openRig, tenant, type Rig } from './rig.ts';
import { desiredState } from '../../harness/states.ts';

type Project = ReadonlyResource<'project'>;
const ready = { type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' } as const;
const active: Verdict<'project'> = { observed: { phase: 'active' }, conditions: [ready], next: { settled: true } };

interface Given extends Partial<Controller<'project'>> {
  /** Called for each reconcile, with its number from 1. */
  each?: (it: Project, ctx: Context, n: number) => Promise<Verdict<'project'>> | Verdict<'project'>;
}

/** A controller of projects that records what it is asked. */
function projects({ each = () => active, ...given }: Given = {}) {
  const seen: { id: string; generation: number; signal: AbortSignal }[] = [];
  const controller: Controller<'project'> = {
    name: 'project',
    kind: 'project',
    reads: ['environment'],
    children: ['environment'],
    wakes: [],
    async reconcile(it, ctx) {
      seen.push({ id: it.meta.id, generation: it.meta.generation, signal: ctx.signal });
      return each(it, ctx, seen.length);
    },
    ...given,
  };
  return { controller, seen };
}

async function rename(rig: Rig, of: string, name: string): Promise<void> {
  await rig.repo.change('project', of, (draft) => {
    draft.display_name = name;
  });
}

const environmentOf = (project: string) => ({ project_id: project, name: 'production', type: 'production' });

test('what is there when the term begins is reconciled, and what comes later too', async () => {
  const { controller, seen } = projects();
  await using rig = await openRig({ controllers: [controller] });
  const first = await createProject(rig.repo, 'first');
  await rig.rest();
  const second = await createProject(rig.repo, 'second');
  await rig.rest();
  expect(seen.map((run) => run.id)).toEqual([first, second]);
  const stored = await rig.repo.get('project', first);
  expect(stored?.observed).toEqual({
    phase: 'active',
    observedGeneration: 1,
    conditions: [{ ...ready, observedGeneration: 1, changedAt: rig.clock.now().toISOString() }],
  });
});

test('the own write of what was observed wakes nobody', async () => {
  const { controller, seen } = projects();
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(seen).toHaveLength(1);
});

test('a change of the wish is reconciled, a change of a label is not', async () => {
  const { controller, seen } = projects();
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  expect(seen.map((run) => run.generation)).toEqual([1, 2]);
  const unit = rig.repo.begin();
  unit.label(rig.mirror.tenant(tenant).get('project', it)!, { team: 'a' });
  await unit.commit();
  await rig.rest();
  expect(seen).toHaveLength(2);
});

test('a system at rest writes nothing when everything is looked at again', async () => {
  const { controller, seen } = projects();
  await using rig = await openRig({ controllers: [controller] });
  for (let n = 0; n < 500; n++) await createProject(rig.repo, `p${n}`);
  await rig.rest();
  expect(seen).toHaveLength(500);
  rig.store.reset();
  rig.controllers.resync();
  await rig.rest();
  expect(seen).toHaveLength(1000);
  expect(rig.store.committed).toBe(0);
  expect(rig.store.conflicts).toBe(0);
});

test('every object is looked at again once in ten minutes, give or take a fifth', async () => {
  let random = 0;
  const { controller, seen } = projects();
  await using rig = await openRig({ controllers: [controller], random: () => random });
  await createProject(rig.repo, 'early');
  await rig.rest();
  await rig.clock.advance(limits.reconcile.resyncMs * 0.8 - 1);
  expect(seen).toHaveLength(1);
  random = 0.999_999;
  await rig.clock.advance(1);
  expect(seen).toHaveLength(2);
  await rig.clock.advance(limits.reconcile.resyncMs * 1.19);
  expect(seen).toHaveLength(2);
  await rig.clock.advance(limits.reconcile.resyncMs * 0.02);
  expect(seen).toHaveLength(3);
});

test('a reconcile sees what the one before wrote', async () => {
  const seenChildren: number[] = [];
  const { controller } = projects({
    async each(it, ctx, n) {
      seenChildren.push(ctx.view.by('environment', 'project', it.meta.id).length);
      if (n <= 3) {
        await ctx.ensure('environment', id(`env${n}`), { ...environmentOf(it.meta.id), name: `e${n}` }, it);
        return { ...active, next: { again: 0, because: 'the next environment to be made' } };
      }
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(seenChildren).toEqual([0, 1, 2, 3]);
  expect(rig.store.conflicts).toBe(0);
});

test('the next reconcile of an object waits until the mirror shows what the last one wrote', async () => {
  const seenChildren: number[] = [];
  const { controller, seen } = projects({
    async each(it, ctx, n) {
      seenChildren.push(ctx.view.by('environment', 'project', it.meta.id).length);
      if (n === 2) {
        rig.lag.hold();
        await ctx.ensure('environment', id('env'), environmentOf(it.meta.id), it);
      }
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  rig.controllers.resync();
  await settle();
  rig.controllers.resync();
  await settle(50);
  expect(seen).toHaveLength(2);
  rig.lag.release();
  await rig.rest();
  expect(seenChildren).toEqual([0, 0, 1]);
});

test('a stalled object is shown as such, and left alone until it changes', async () => {
  const { controller, seen } = projects({
    each: () => ({
      observed: { phase: 'active' },
      conditions: [{ type: 'Ready', status: 'false', reason: 'NoOwner', message: 'Its owner does not exist' }],
      next: { stalled: { reason: 'NoOwner', message: 'Its owner does not exist' } },
    }),
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rig.clock.advance(10 * limits.reconcile.resyncMs);
  expect(seen).toHaveLength(1);
  const stored = await rig.repo.get('project', it);
  expect(stored?.observed?.conditions.map(({ type, status }) => [type, status])).toEqual([
    ['Ready', 'false'],
    ['Stalled', 'true'],
  ]);
  await rename(rig, it, 'Uno');
  await rig.rest();
  expect(seen).toHaveLength(2);
});

test('a thrown stall is shown and ends what was ready', async () => {
  const { controller, seen } = projects({
    each(_, __, n) {
      if (n > 1) throw new Stalled('NoOwner', 'Its owner does not exist');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  await rig.clock.advance(10 * limits.reconcile.resyncMs);
  expect(seen).toHaveLength(2);
  const { observed } = (await rig.repo.get('project', it))!;
  expect(observed?.observedGeneration).toBe(2);
  expect(observed?.conditions.map(({ type, status, reason }) => [type, status, reason])).toEqual([
    ['Ready', 'false', 'NoOwner'],
    ['Stalled', 'true', 'NoOwner'],
  ]);
});

test('a thrown stall that cannot be shown is tried again until it is', async () => {
  let faulty: FaultyStore | undefined;
  const { controller, seen } = projects({
    each(_, __, n) {
      if (n === 1) return active;
      if (n === 2) faulty?.at(faulty.transactions + 1, 'fail-before-commit');
      throw new Stalled('NoOwner', 'Its owner does not exist');
    },
  });
  await using rig = await openRig({ controllers: [controller], wrap: (store) => (faulty = new FaultyStore(store)) });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  await rig.clock.advance(limits.reconcile.backoffFirstMs * 2);
  await rig.rest();
  expect(seen).toHaveLength(3);
  const { observed } = (await rig.repo.get('project', it))!;
  expect(observed?.conditions.map(({ type, status, reason }) => [type, status, reason])).toEqual([
    ['Ready', 'false', 'NoOwner'],
    ['Stalled', 'true', 'NoOwner'],
  ]);
});

test('what was too large is tried again by the resync, as it may follow from other objects', async () => {
  const { controller, seen } = projects({
    each(_, __, n) {
      if (n === 2) throw tooLarge('A transaction has at most 64 guards and writes: got 65');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  const shown = async () => (await rig.repo.get('project', it))?.observed?.conditions.map(({ type }) => type);
  expect(await shown()).toEqual(['Ready', 'Stalled']);
  await rig.clock.advance(2 * limits.reconcile.resyncMs);
  await rig.rest();
  expect(seen.length).toBeGreaterThan(2);
  expect(await shown()).toEqual(['Ready']);
});

test('a failure is shown with its message, tried again with backoff, and gone after a success', async () => {
  const { controller, seen } = projects({
    each(_, __, n) {
      if (n === 2 || n === 3) throw new Failure('QuotaExceeded', 'Quota of 3 environments is used up');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  const failed = await rig.repo.get('project', it);
  expect(failed?.observed?.observedGeneration).toBe(1);
  expect(
    failed?.observed?.conditions.map(({ type, status, reason, message }) => [type, status, reason, message]),
  ).toEqual([
    ['Ready', 'true', 'Active', 'Ready for use'],
    ['Reconciling', 'true', 'Retrying', 'Quota of 3 environments is used up'],
  ]);
  rig.store.reset();
  await rig.clock.advance(100);
  expect(seen).toHaveLength(3);
  expect(rig.store.committed).toBe(0);
  await rig.clock.advance(199);
  expect(seen).toHaveLength(3);
  await rig.clock.advance(1);
  await rig.rest();
  expect(seen).toHaveLength(4);
  const healed = await rig.repo.get('project', it);
  expect(healed?.observed?.conditions.map(({ type }) => type)).toEqual(['Ready']);
  expect(healed?.observed?.observedGeneration).toBe(2);
});

test('the text of an error that nobody vouched for is not shown', async () => {
  const { controller } = projects({
    each(_, __, n) {
      if (n === 2) throw new Error('connect to postgres://user:hunter2@db failed');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.rest();
  const page = await rig.store.list(keys.all);
  expect(page.entries.map(({ value }) => value).join()).not.toContain('hunter2');
  expect(JSON.stringify(await rig.repo.get('project', it))).toContain(
    'Internal error: the log of the control plane has the cause',
  );
});

test('a failure before anything was observed becomes an event of the object', async () => {
  const { controller } = projects({
    each() {
      throw new Failure('QuotaExceeded', 'Quota of 3 environments is used up');
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const ring = rig.mirror.key(keys.events(tenant, 'project', it));
  expect(readEvents(ring?.value)).toMatchObject([{ type: 'warning', reason: 'QuotaExceeded', count: 1 }]);
});

test('the log lines of one run have one number, and those of another run another', async () => {
  const lines: { reconcile_id?: number; key?: string; msg: string }[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const { controller } = projects({
    each(_, ctx, n) {
      ctx.log.info('Begins');
      if (n === 1) throw new TypeError('bug');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller], log });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rig.clock.advance(limits.reconcile.backoffFirstMs);
  await rig.rest();
  const ofRuns = lines.filter(({ key }) => key === `${tenant}/${it}`);
  expect(ofRuns.map(({ reconcile_id, msg }) => [reconcile_id, msg])).toEqual([
    [1, 'Begins'],
    [1, 'Reconcile failed'],
    [1, 'Reconciled'],
    [2, 'Begins'],
    [2, 'Reconciled'],
  ]);
});

test('a failing object does not disturb the others', async () => {
  const { controller, seen } = projects({
    each(it) {
      if (it.desired.name === 'bad') throw new TypeError('bug');
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'bad');
  for (let n = 0; n < 20; n++) await createProject(rig.repo, `good${n}`);
  await rig.rest();
  expect(seen).toHaveLength(21);
  expect(await rig.metric('setpoint_reconcile_total', { outcome: 'settled' })).toBe(20);
  expect(await rig.metric('setpoint_reconcile_total', { outcome: 'error' })).toBe(1);
});

test('a conflict is tried again as soon as the mirror shows what it was with, and shown to nobody', async () => {
  const generations: number[] = [];
  const { controller } = projects({
    async each(it, ctx, n) {
      generations.push(it.meta.generation);
      if (n === 1) {
        rig.lag.hold();
        await rename(rig, it.meta.id, 'Meanwhile');
        await ctx.ensure('environment', id('env'), environmentOf(it.meta.id), it);
      }
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await settle(50);
  const whileBehind = [...generations];
  rig.lag.release();
  await rig.rest();
  expect(whileBehind).toEqual([1]);
  expect(new Set(generations.slice(1))).toEqual(new Set([2]));
  expect(await rig.metric('setpoint_reconcile_total', { outcome: 'conflict' })).toBe(1);
  const stored = await rig.repo.get('project', it);
  expect(stored?.observed?.conditions.map(({ type }) => type)).toEqual(['Ready']);
});

test('conflicts that do not end back off', async () => {
  const { controller, seen } = projects({
    each(_, __, n) {
      // without a bound they would never let go of the event loop, and no deadline of the test could end it
      if (n > 100) throw new Failure('Unbounded', 'Conflicts are repeated without a bound');
      throw conflict('always');
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  const atOnce = seen.length;
  expect(atOnce).toBe(limits.reconcile.conflictsAtOnce + 1);
  await rig.clock.advance(99);
  expect(seen).toHaveLength(atOnce);
  await rig.clock.advance(1);
  expect(seen).toHaveLength(atOnce + 1);
});

test('a store that does not answer is asked again, quietly', async () => {
  let faulty: FaultyStore | undefined;
  const { controller, seen } = projects({
    each(_, __, n) {
      if (n === 1) throw unavailable('get');
      return active;
    },
  });
  await using rig = await openRig({
    controllers: [controller],
    wrap: (store) => (faulty = new FaultyStore(store)),
  });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  faulty!.at(faulty!.transactions + 1, 'fail-before-commit');
  faulty!.at(faulty!.transactions + 2, 'lose-answer');
  await rig.clock.advance(1000);
  await rig.rest();
  expect(seen).toHaveLength(4);
  const stored = await rig.repo.get('project', it);
  expect(stored?.observed?.conditions.map(({ type }) => type)).toEqual(['Ready']);
  expect(rig.mirror.key(keys.events(tenant, 'project', it))).toBeUndefined();
});

test('the runtime says what is awaited, and the change of an awaited object wakes', async () => {
  const { controller, seen } = projects({
    reads: ['environment', 'server'],
    each(_, ctx) {
      const server = ctx.view.get('server', id('server'));
      if (server !== undefined) return active;
      return {
        observed: { phase: 'active' },
        conditions: [{ type: 'Ready', status: 'false', reason: 'NoServer', message: 'It has no server' }],
        next: { waitingFor: [{ kind: 'server', id: id('server') }], because: 'its server to be there' },
      };
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const waiting = await rig.repo.get('project', it);
  expect(waiting?.observed?.conditions.map(({ type, reason, message }) => [type, reason, message])).toEqual([
    ['Ready', 'NoServer', 'It has no server'],
    ['Reconciling', 'Waiting', 'its server to be there'],
  ]);
  const unit = rig.repo.begin();
  unit.create('server', id('server'), desiredState('server', { name: 's' }));
  await unit.commit();
  await rig.rest();
  expect(seen).toHaveLength(2);
  expect((await rig.repo.get('project', it))?.observed?.conditions.map(({ type }) => type)).toEqual(['Ready']);
});

test('what waits is looked at again once in ten minutes, too', async () => {
  const { controller, seen } = projects({
    reads: ['environment', 'server'],
    each: () => ({
      observed: { phase: 'active' },
      conditions: [{ type: 'Ready', status: 'false', reason: 'NoServer', message: 'It has no server' }],
      next: { waitingFor: [{ kind: 'server', id: id('server') }], because: 'its server to be there' },
    }),
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(seen).toHaveLength(1);
  await rig.clock.advance(limits.reconcile.resyncMs * (1 + limits.reconcile.resyncJitter));
  await rig.rest();
  expect(seen).toHaveLength(2);
});

test('an awaited object that changes while the run looks is not missed', async () => {
  const { controller, seen } = projects({
    reads: ['environment', 'server'],
    async each(_, ctx) {
      const server = ctx.view.get('server', id('server'));
      if (server !== undefined) return active;
      const unit = rig.repo.begin();
      unit.create('server', id('server'), desiredState('server', { name: 's' }));
      await unit.commit();
      await rig.mirror.reached(await rig.store.revision(), ctx.signal);
      return {
        observed: { phase: 'active' },
        conditions: [{ ...ready, status: 'false' }],
        next: { waitingFor: [{ kind: 'server', id: id('server') }], because: 'its server to be there' },
      };
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(seen).toHaveLength(2);
});

test('the change of another kind wakes what the controller names', async () => {
  const { controller, seen } = projects({
    wakes: [
      {
        kind: 'environment',
        ids: ({ before, after }) => {
          const it = after ?? before;
          return it !== undefined && 'project_id' in it.desired ? [String(it.desired.project_id)] : [];
        },
      },
    ],
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.create('environment', id('env'), environmentOf(it));
  await unit.commit();
  await rig.rest();
  expect(seen).toHaveLength(2);
});

/** Creates an environment in a place of the project's name, whether or not that exists. */
async function createEnvironment(rig: Rig, project: string, name: string): Promise<void> {
  const unit = rig.repo.begin();
  unit.create('environment', id(name), { ...environmentOf(project), name });
  await unit.commit();
  await rig.rest();
}

test('a wake that throws disturbs neither the mirror nor the controller', async () => {
  const { controller, seen } = projects({
    wakes: [
      onChild('environment', () => {
        throw new Error('bug');
      }),
    ],
  });
  await using rig = await openRig({ controllers: [controller] });
  await createEnvironment(rig, id('nobody'), 'env');
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(seen).toHaveLength(1);
});

test('a wake that throws once still reaches its object soon, and is counted', async () => {
  let throws = 1;
  const { controller, seen } = projects({
    wakes: [
      onChild('environment', ({ desired }) => {
        if (throws-- > 0) throw new Error('bug');
        return [desired.project_id];
      }),
    ],
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await createEnvironment(rig, it, 'env');
  expect(seen).toHaveLength(1);
  await rig.clock.advance(limits.reconcile.backoffFirstMs);
  await rig.rest();
  expect(seen).toHaveLength(2);
  expect(await rig.metric('setpoint_wake_failures_total', { controller: 'project' })).toBe(1);
});

test('a wake of a key that throws once still reaches its object soon', async () => {
  let throws = 1;
  const { controller, seen } = projects({
    keyWakes() {
      if (throws-- > 0) throw new Error('bug');
      return undefined;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await rig.rest();
  throws = 1;
  await createProject(rig.repo, 'one');
  await rig.rest();
  const before = seen.length;
  throws = 1;
  const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm' });
  await rig.store.txn({ if: [], then: [{ put: keys.agent(tenant, id('server')), value }] });
  await rig.rest();
  await rig.clock.advance(2 * limits.reconcile.backoffFirstMs);
  await rig.rest();
  expect(seen).toHaveLength(before + 1);
});

test('a change during the wait for the pass is reached, although the object ran meanwhile', async () => {
  const { controller, seen } = projects({
    wakes: [
      onChild('environment', () => {
        throw new Error('bug');
      }),
    ],
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await createEnvironment(rig, it, 'env');
  await rename(rig, it, 'Uno');
  await rig.rest();
  await createEnvironment(rig, it, 'env2');
  expect(seen).toHaveLength(2);
  await rig.clock.advance(limits.reconcile.backoffFirstMs);
  await rig.rest();
  expect(seen).toHaveLength(3);
});

test('a wake that goes on throwing backs off, and does so no longer once it was quiet', async () => {
  const { controller, seen } = projects({
    wakes: [
      onChild('environment', () => {
        throw new Error('bug');
      }),
    ],
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const first = limits.reconcile.backoffFirstMs / 2;
  let n = 0;
  const runsWithin = async (ms: number): Promise<number> => {
    const before = seen.length;
    await createEnvironment(rig, it, `env${++n}`);
    await rig.clock.advance(ms);
    await rig.rest();
    return seen.length - before;
  };
  expect(await runsWithin(first)).toBe(1);
  expect(await runsWithin(first)).toBe(0);
  await rig.clock.advance(first);
  await rig.rest();
  await rig.clock.advance(limits.reconcile.resyncMs * (1 + limits.reconcile.resyncJitter));
  await rig.rest();
  expect(await runsWithin(first)).toBe(1);
});

test('the live session of an agent wakes what the controller names', async () => {
  const { controller, seen } = projects({
    keyWakes: (key) => (key.area === 'agent' ? { tenant: key.tenant, id: id('one') } : undefined),
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm' });
  await rig.store.txn({ if: [], then: [{ put: keys.agent(tenant, id('server')), value }] });
  await rig.rest();
  expect(seen).toHaveLength(2);
});

test('deletion is finalized until it is released, then the object is gone', async () => {
  let left = 2;
  const finalized: (string | undefined)[] = [];
  const { controller, seen } = projects({
    async finalize(it) {
      finalized.push(it.meta.deletionRequestedAt);
      left--;
      return {
        observed: { phase: 'deleting' },
        conditions: [{ type: 'Ready', status: 'false', reason: 'Deleting', message: 'Waits for its children' }],
        next: left > 0 ? { again: 1000, because: 'its children to go' } : { settled: true },
        released: left === 0,
      };
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('project', it))!);
  await unit.commit();
  await rig.rest();
  const deleting = await rig.repo.get('project', it);
  expect(deleting?.observed?.phase).toBe('deleting');
  expect(deleting?.observed?.conditions.map(({ type, reason }) => [type, reason])).toEqual([
    ['Ready', 'Deleting'],
    ['Reconciling', 'Progressing'],
  ]);
  await rig.clock.advance(1000);
  await rig.rest();
  expect(finalized).toHaveLength(2);
  expect(seen).toHaveLength(1);
  const page = await rig.store.list(keys.ofTenant(tenant));
  // what is left is not of the project: a note at its owner that it came
  expect(page.entries.map(({ key }) => key)).toEqual([keys.population(tenant, 'user', id('owner'))]);
});

test('a finalizer that throws keeps the object', async () => {
  const { controller } = projects({
    async finalize() {
      throw new Failure('BucketRefused', 'Bucket refused the deletion');
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('project', it))!);
  await unit.commit();
  await rig.rest();
  await rig.clock.advance(60_000);
  const kept = await rig.repo.get('project', it);
  expect(kept?.meta.finalizers).toEqual(['project']);
  expect(kept?.observed?.conditions.find(({ type }) => type === 'Reconciling')?.message).toBe(
    'Bucket refused the deletion',
  );
});

test('an object without work of ours at its end is released at once', async () => {
  const { controller } = projects();
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('project', it))!);
  await unit.commit();
  await rig.rest();
  expect(await rig.repo.get('project', it)).toBeUndefined();
});

test('the time of a condition moves with its status and reason only', async () => {
  let message = 'one';
  let reason = 'Active';
  const { controller } = projects({
    each: () => ({ ...active, conditions: [{ ...ready, reason, message }] }),
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const read = async () => (await rig.repo.get('project', it))!.observed!.conditions[0]!;
  const start = await read();
  await rig.clock.advance(5000);
  message = 'two';
  rig.controllers.resync();
  await rig.rest();
  expect(await read()).toEqual({ ...start, message: 'two' });
  reason = 'Idle';
  rig.controllers.resync();
  await rig.rest();
  expect((await read()).changedAt).toBe(rig.clock.now().toISOString());
});

test('a verdict that breaks a law of the status fails its run in development and is counted', async () => {
  const { controller } = projects({
    each: () => ({ ...active, next: { stalled: { reason: 'Broken', message: 'It is broken' } } }),
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  expect((await rig.repo.get('project', it))?.observed).toBeUndefined();
  expect(await rig.metric('setpoint_status_law_violations_total')).toBe(1);
});

test('what a controller did not declare it can neither read nor write', async () => {
  const errors: string[] = [];
  const { controller } = projects({
    async each(it, ctx) {
      const attempts = [
        () => ctx.view.get('user', id('u')),
        () => ctx.view.list('server'),
        () => ctx.view.by('assignment', 'server', id('s')),
        () => ctx.view.agent(id('s')),
        () => ctx.retire('user', id('u')),
        () => ctx.amend('application', id('a'), () => undefined),
        () => ctx.ensure('server', id('s'), { name: 's' } as never, it),
        () => ctx.waive('assignment', id('a'), 'agent'),
      ];
      for (const attempt of attempts) {
        try {
          await attempt();
        } catch (error) {
          errors.push((error as Error).message);
        }
      }
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(errors).toHaveLength(8);
  for (const message of errors) expect(message).toMatch(/declare/);
});

test('a run that exceeds its deadline is shown and tried again', async () => {
  const { controller, seen } = projects({
    async each(_, ctx, n) {
      if (n !== 2) return active;
      return new Promise<never>((_resolve, reject) => {
        ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error));
      });
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  await rename(rig, it, 'Uno');
  await rig.clock.advance(limits.reconcile.deadlineMs);
  await rig.rest();
  const late = await rig.repo.get('project', it);
  expect(late?.observed?.conditions.find(({ type }) => type === 'Reconciling')?.message).toBe('Exceeded its deadline');
  await rig.clock.advance(100);
  await rig.rest();
  expect(seen).toHaveLength(3);
  expect((await rig.repo.get('project', it))?.observed?.observedGeneration).toBe(2);
});

test('a run that goes on after its deadline can write nothing more', async () => {
  let late: Promise<unknown> | undefined;
  const { controller } = projects({
    async each(it, ctx, n) {
      if (n > 1) return active;
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
      late = ctx.ensure('environment', id('env'), environmentOf(it.meta.id), it);
      await late.catch(() => undefined);
      return active;
    },
  });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.clock.advance(limits.reconcile.deadlineMs);
  await rig.rest();
  await expect(late).rejects.toThrow(/deadline/);
  expect(await rig.repo.get('environment', id('env'))).toBeUndefined();
});
