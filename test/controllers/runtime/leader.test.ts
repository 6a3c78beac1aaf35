import { expect, test } from 'vitest';
import type { Controller, Verdict } from '../../../controllers/runtime/controller.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { startCandidate, type TestCandidate } from '../../harness/candidate.ts';
import { settle } from '../../harness/fake-clock.ts';
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

function candidate(rig: Rig, replica: string): TestCandidate {
  return startCandidate(rig, { name: 'other', replica });
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

test('a candidate that cannot stand for a reason that is not expected tries again, and leads', async () => {
  await using rig = await openRig();
  await rig.rest(); // its own replica leads the controllers by now
  const lease = rig.store.lease.bind(rig.store);
  let failures = 0;
  rig.store.lease = () => {
    failures += 1;
    return Promise.reject(new TypeError('bug'));
  };
  await using a = candidate(rig, 'a');
  await rig.clock.advance(3 * limits.leader.failureMs);
  expect(failures).toBeGreaterThan(2);
  expect(a.isLeading()).toBe(false);
  rig.store.lease = lease;
  await rig.clock.advance(limits.leader.failureMs);
  expect(a.isLeading()).toBe(true);
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

test('a candidate leaves the leadership to a replica that cannot read its records, until that is gone', async () => {
  await using rig = await openRig();
  const announce = (reads?: Record<string, number>) =>
    rig.store.txn({
      if: [],
      then: [{ put: keys.replica('other'), value: JSON.stringify({ url: 'http://other.test', version: '1', reads }) }],
    });
  const now = Object.fromEntries(Object.values(kinds).map(({ kind, version }) => [kind, version]));
  const { volume: _, ...withoutVolumes } = now;
  await announce();
  const a = candidate(rig, 'a');
  for (const earlier of [undefined, withoutVolumes, { ...now, assignment: 2 }]) {
    await announce(earlier);
    await rig.clock.advance(2 * limits.leader.retryMs);
    expect(a.isLeading()).toBe(false);
  }
  await rig.store.txn({ if: [], then: [{ delete: keys.replica('other') }] });
  await rig.clock.advance(limits.leader.jitterMs);
  expect(a.isLeading()).toBe(true);
  await announce();
  await rig.clock.advance(2 * limits.leader.ttlMs);
  expect(a.isLeading()).toBe(true);
  await a.stop();
});

test('a candidate leads beside replicas of its own release and of later ones', async () => {
  await using rig = await openRig();
  const now = Object.fromEntries(Object.values(kinds).map(({ kind, version }) => [kind, version]));
  const announcements = [
    { url: 'http://same.test', version: '1', reads: now },
    { url: 'http://later.test', version: '1', reads: { ...now, assignment: 99, machine: 1 } },
    { address: 'of a form that this release does not know' },
  ];
  const puts = announcements.map((it, n) => ({ put: keys.replica(`r${n}`), value: JSON.stringify(it) }));
  await rig.store.txn({ if: [], then: [...puts, { put: keys.replica('torn'), value: '{' }] });
  const a = candidate(rig, 'a');
  await rig.clock.advance(limits.leader.jitterMs);
  expect(a.isLeading()).toBe(true);
  await a.stop();
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
