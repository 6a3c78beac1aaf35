import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { conflictReason, isConflict } from '../../store/errors.ts';
import { keys, parseKey } from '../../store/keys.ts';
import { describeFailure, holderOf } from '../../store/commit-failure.ts';
import type { CommitFailure } from '../../store/errors.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { CommittableUnit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { randomId } from '../harness/random-id.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { ForwardingStore } from '../harness/forwarding-store.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

let store: Store & AsyncDisposable;
let clock: FakeClock;
let repo: Repository;

beforeEach(async () => {
  clock = new FakeClock();
  store = await openSqlite({ path: ':memory:', clock });
  repo = openRepository(store, 'acme', clock);
});

afterEach(() => store[Symbol.asyncDispose]());

async function create(name: string): Promise<Resource<'project'>> {
  const unit = repo.begin();
  const it = unit.create('project', randomId(), desiredState('project', { name }));
  await expectCommitted(unit);
  return it;
}

async function expectCommitted(unit: CommittableUnit): Promise<void> {
  expect(await unit.commit()).toMatchObject({ committed: true });
}

async function failureOf(unit: CommittableUnit): Promise<CommitFailure> {
  const result = await unit.commit();
  if (result.committed) throw new Error('Transaction was expected to fail');
  return describeFailure(result);
}

async function reasonOf(promise: Promise<unknown>): Promise<CommitFailure | undefined> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(isConflict(error)).toBe(true);
  return conflictReason(error);
}

async function stored(kind: 'project' | 'user' | 'environment', id: string): Promise<unknown> {
  const entry = await store.get(keys.desired('acme', kind, id));
  return entry && JSON.parse(entry.value);
}

/** Beside notes at owners that something came to them: most tests name an owner that is not there. */
async function allKeys(): Promise<string[]> {
  const { entries } = await store.list(keys.all);
  return entries.map((entry) => entry.key).filter((key) => parseKey(key)?.area !== 'population');
}

describe('a created object', () => {
  it('has defaults, finalizers, owners of its kind and of the caller, and the revision of its commit', async () => {
    const unit = repo.begin();
    const id = randomId();
    const state = desiredState('environment');
    const extra = { kind: 'server', id: randomId(), blocks: false } as const;
    const again = { kind: 'project', id: state.project_id, blocks: false } as const;
    const { type: _, ...withoutDefault } = state;
    const it = unit.create('environment', id, withoutDefault as typeof state, {
      owners: [extra, again],
      labels: { tier: 'web' },
    });
    const result = await unit.commit();
    expect(it).toEqual({
      meta: {
        tenant: 'acme',
        kind: 'environment',
        id,
        generation: 1,
        desiredRevision: result.revision,
        createdRevision: result.revision,
        createdAt: '2030-01-01T00:00:00.000Z',
        updatedAt: '2030-01-01T00:00:00.000Z',
        finalizers: ['environment'],
        owners: [{ kind: 'project', id: state.project_id, blocks: true }, extra],
        labels: { tier: 'web' },
      },
      desired: { ...state, type: 'production' },
    });
    expect(await repo.get('environment', id)).toEqual(it);
  });

  it('is refused at once if it is not of its kind', () => {
    expect(() => repo.begin().create('project', randomId(), {} as never)).toThrow();
  });

  it('is refused if its id exists', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.create('project', it.meta.id, desiredState('project', { name: 'a' }));
    expect(await failureOf(unit)).toEqual({ why: 'exists', ref: { kind: 'project', id: it.meta.id } });
  });

  it('is refused if its name is taken, whatever its case or Unicode form', async () => {
    const holder = await create('Straße');
    const unit = repo.begin();
    unit.create('project', randomId(), desiredState('project', { name: 'STRAßE' }));
    expect(await failureOf(unit)).toEqual({
      why: 'name-taken',
      kind: 'project',
      scope: 'all',
      name: 'strasse',
      holder: holder.meta.id,
    });
  });

  it('may have the name of an object in another scope, of another kind or of another tenant', async () => {
    const unit = repo.begin();
    unit.create('environment', randomId(), desiredState('environment', { name: 'live' }));
    unit.create('environment', randomId(), desiredState('environment', { name: 'live' }));
    unit.create('project', randomId(), desiredState('project', { name: 'live' }));
    await expectCommitted(unit);
    const other = openRepository(store, 'other', clock).begin();
    other.create('project', randomId(), desiredState('project', { name: 'live' }));
    await expectCommitted(other);
  });

  it('is found by its name', async () => {
    const it = await create('Shop');
    expect(await repo.idByName('project', 'all', 'shop')).toBe(it.meta.id);
    expect(await repo.idByName('project', 'all', 'shops')).toBeUndefined();
  });

  it('is refused if an owner was changed since it was read', async () => {
    const parent = await create('parent');
    await repo.change('project', parent.meta.id, (draft) => (draft.description = 'changed'));
    const unit = repo.begin();
    unit.require(parent);
    unit.create('environment', randomId(), desiredState('environment', { project_id: parent.meta.id }));
    expect(await failureOf(unit)).toEqual({ why: 'changed', ref: { kind: 'project', id: parent.meta.id } });
  });
});

describe('a change', () => {
  it('raises the generation and moves the time of change, not that of creation', async () => {
    const it = await create('a');
    await clock.advance(60_000);
    const changed = await repo.change('project', it.meta.id, (draft) => (draft.description = 'more'));
    expect(changed?.meta).toMatchObject({
      generation: 2,
      createdAt: '2030-01-01T00:00:00.000Z',
      updatedAt: '2030-01-01T00:01:00.000Z',
      desiredRevision: await store.revision(),
    });
    expect(await repo.get('project', it.meta.id)).toEqual(changed);
  });

  it('that changes nothing writes nothing', async () => {
    const it = await create('a');
    const before = await store.revision();
    await clock.advance(1000);
    const same = await repo.change('project', it.meta.id, (draft) => {
      draft.single_server_mode = false;
      draft.description = undefined;
    });
    expect(same).toEqual(it);
    expect(await store.revision()).toBe(before);
  });

  it('that takes itself back within a unit writes nothing', async () => {
    const it = await create('a');
    const before = await store.revision();
    const unit = repo.begin();
    await clock.advance(1000);
    unit.change(it, (draft) => (draft.description = 'b'));
    const back = unit.change(it, (draft) => delete draft.description);
    expect(await unit.commit()).toEqual({ committed: true, revision: it.meta.desiredRevision });
    expect(back).toEqual(it);
    expect(await store.revision()).toBe(before);
  });

  it('that is not of the kind is refused and leaves the unit as it was', async () => {
    const it = await create('a');
    const unit = repo.begin();
    expect(() => unit.change(it, (draft) => (draft.color = 'blue'))).toThrow();
    unit.change(it, (draft) => (draft.description = 'b'));
    await expectCommitted(unit);
    expect((await repo.get('project', it.meta.id))?.desired).toEqual({ ...it.desired, description: 'b' });
  });

  it('does not touch the object that was read', async () => {
    const it = await create('a');
    const copy = structuredClone(it);
    repo.begin().change(it, (draft) => (draft.name = 'b'));
    expect(it).toEqual(copy);
  });

  it('moves the unique name', async () => {
    const it = await create('old');
    await repo.change('project', it.meta.id, (draft) => (draft.name = 'new'));
    expect(await repo.idByName('project', 'all', 'old')).toBeUndefined();
    expect(await repo.idByName('project', 'all', 'new')).toBe(it.meta.id);
    await create('old');
  });

  it('of the case of a name keeps the name', async () => {
    const it = await create('shop');
    await repo.change('project', it.meta.id, (draft) => (draft.name = 'Shop'));
    expect(await repo.idByName('project', 'all', 'shop')).toBe(it.meta.id);
    expect((await repo.get('project', it.meta.id))?.desired.name).toBe('Shop');
  });

  it('to a name that is taken is a conflict that says so and is not tried again', async () => {
    const holder = await create('taken');
    const it = await create('free');
    let calls = 0;
    const change = repo.change('project', it.meta.id, (draft) => {
      calls++;
      draft.name = 'taken';
    });
    expect(await reasonOf(change)).toMatchObject({ why: 'name-taken', name: 'taken', holder: holder.meta.id });
    expect(calls).toBe(1);
  });

  it('lets two objects of a unit swap their names', async () => {
    const a = await create('a');
    const b = await create('b');
    const unit = repo.begin();
    unit.change(a, (draft) => (draft.name = 'b'));
    unit.change(b, (draft) => (draft.name = 'a'));
    await expectCommitted(unit);
    expect(await repo.idByName('project', 'all', 'a')).toBe(b.meta.id);
    expect(await repo.idByName('project', 'all', 'b')).toBe(a.meta.id);
  });

  it('hands the name of an object that a unit deletes to another one', async () => {
    const owner = randomId();
    const first = repo.begin();
    const old = first.create('user', owner, desiredState('user', { email: 'a@example.org' }));
    await expectCommitted(first);
    const unit = repo.begin();
    unit.requestDelete(old);
    const heir = unit.create('user', randomId(), desiredState('user', { email: 'A@example.org' }));
    await expectCommitted(unit);
    expect(await repo.idByName('user', 'all', 'a@example.org')).toBe(heir.meta.id);
  });

  it('cannot give one name to two objects of a unit', async () => {
    const unit = repo.begin();
    unit.create('project', randomId(), desiredState('project', { name: 'one' }));
    unit.create('project', randomId(), desiredState('project', { name: 'ONE' }));
    expect(await reasonOf(unit.commit())).toMatchObject({ why: 'name-taken', name: 'one' });
  });

  it('follows the owners of the kind and keeps those of the caller', async () => {
    const extra = { kind: 'project', id: randomId(), blocks: false } as const;
    const first = repo.begin();
    const state = desiredState('application');
    const it = first.create('application', randomId(), state, { owners: [extra] });
    await expectCommitted(first);
    const environment = randomId();
    const moved = await repo.change('application', it.meta.id, (draft) => (draft.environment_id = environment));
    expect(moved?.meta.owners).toEqual([{ kind: 'environment', id: environment, blocks: true }, extra]);
  });

  it('of an object that is gone answers undefined', async () => {
    expect(await repo.change('project', randomId(), () => undefined)).toBeUndefined();
  });

  it('of an object that goes meanwhile answers undefined', async () => {
    const unit = repo.begin();
    const it = unit.create('user', randomId(), desiredState('user'));
    await expectCommitted(unit);
    const racing = new ForwardingStore(store);
    racing.txn = async (txn) => {
      await store.txn({ if: [], then: [{ delete: keys.desired('acme', 'user', it.meta.id) }] });
      return store.txn(txn);
    };
    const changed = openRepository(racing, 'acme', clock).change(
      'user',
      it.meta.id,
      (draft) => (draft.disabled = true),
    );
    expect(await changed).toBeUndefined();
    expect(await stored('user', it.meta.id)).toBeUndefined();
  });

  it('with an expected revision is a conflict at any other, without a second attempt', async () => {
    const it = await create('a');
    await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    const options = { expect: it.meta.desiredRevision };
    const change = repo.change('project', it.meta.id, (draft) => (draft.description = 'c'), options);
    expect(await reasonOf(change)).toEqual({ why: 'changed', ref: { kind: 'project', id: it.meta.id } });
    expect((await repo.get('project', it.meta.id))?.desired.description).toBe('b');
  });

  it('is fenced by the guards of the caller and not tried against them', async () => {
    const it = await create('a');
    const key = keys.leader('controllers');
    let calls = 0;
    const change = repo.change(
      'project',
      it.meta.id,
      (draft) => {
        calls++;
        draft.description = 'b';
      },
      { guards: [{ key, is: 'present' }] },
    );
    expect(await reasonOf(change)).toEqual({ why: 'key', key });
    expect(calls).toBe(1);
  });

  it('gives up after five more attempts', async () => {
    const it = await create('a');
    let calls = 0;
    const busy = new ForwardingStore(store);
    busy.txn = async (txn) => {
      calls++;
      await repo.change('project', it.meta.id, (draft) => (draft.description = `busy ${calls}`));
      return store.txn(txn);
    };
    const change = openRepository(busy, 'acme', clock).change('project', it.meta.id, (draft) => (draft.name = 'b'));
    expect(await reasonOf(change)).toMatchObject({ why: 'changed' });
    expect(calls).toBe(6);
  });

  it('by 100 writers at once loses none of those that were answered', async () => {
    const it = await create('a');
    async function add(name: string): Promise<void> {
      for (;;) {
        try {
          await repo.change(
            'project',
            it.meta.id,
            (draft) => (draft.description = `${draft.description ?? ''}${name} `),
          );
          return;
        } catch (error) {
          if (!isConflict(error)) throw error;
        }
      }
    }
    const writers = Array.from({ length: 100 }, (_, n) => `writer${n}`);
    await Promise.all(writers.map(add));
    const last = await repo.get('project', it.meta.id);
    expect(last?.meta.generation).toBe(101);
    expect(last?.desired.description?.trim().split(' ').sort()).toEqual(writers.sort());
  });
});

describe('a unit', () => {
  it('composes the changes of one object and writes each key once', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.require(it);
    const first = unit.change(it, (draft) => (draft.description = 'b'));
    const second = unit.change(it, (draft) => (draft.display_name = `after ${draft.description}`));
    unit.label(second, { tier: 'web' });
    expect(second).toBe(first);
    expect((await unit.commit()).revision).toBe(first.meta.desiredRevision);
    const now = await repo.get('project', it.meta.id);
    expect(now).toEqual(first);
    expect(now?.desired).toMatchObject({ description: 'b', display_name: 'after b' });
    expect(now?.meta).toMatchObject({ generation: 2, labels: { tier: 'web' } });
  });

  it('changes an object that it creates, in its first generation', async () => {
    const unit = repo.begin();
    const it = unit.create('project', randomId(), desiredState('project', { name: 'a' }));
    unit.change(it, (draft) => (draft.name = 'b'));
    await expectCommitted(unit);
    expect((await repo.get('project', it.meta.id))?.meta.generation).toBe(1);
    expect(await repo.idByName('project', 'all', 'a')).toBeUndefined();
    expect(await repo.idByName('project', 'all', 'b')).toBe(it.meta.id);
  });

  it('is all or nothing', async () => {
    const a = await create('a');
    const b = await create('b');
    await repo.change('project', b.meta.id, (draft) => (draft.description = 'newer'));
    const unit = repo.begin();
    unit.change(a, (draft) => (draft.description = 'x'));
    unit.change(b, (draft) => (draft.description = 'x'));
    expect(await failureOf(unit)).toEqual({ why: 'changed', ref: { kind: 'project', id: b.meta.id } });
    expect(await repo.get('project', a.meta.id)).toEqual(a);
  });

  it('takes no two states of one object', async () => {
    const it = await create('a');
    const newer = await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    const unit = repo.begin();
    unit.require(it);
    expect(() => unit.change(newer!, (draft) => (draft.description = 'c'))).toThrow('two states of it were read');
  });

  it('takes no object of another tenant', async () => {
    const it = await create('a');
    const other = openRepository(store, 'other', clock);
    expect(() => other.begin().requestDelete(it)).toThrow('another tenant');
    expect(() => other.begin().observe(it, projectObserved('active'))).toThrow('another tenant');
    await expect(other.observe(it, projectObserved('active'), [])).rejects.toThrow('another tenant');
  });

  it('without a write sends nothing and answers with the highest revision that was read', async () => {
    const a = await create('a');
    const b = await create('b');
    const unit = repo.begin();
    unit.require(b);
    unit.require(a);
    const before = await store.revision();
    expect(await unit.commit()).toEqual({ committed: true, revision: b.meta.desiredRevision });
    expect(await store.revision()).toBe(before);
  });

  it('carries guards and writes of other keys', async () => {
    const unit = repo.begin();
    const key = keys.idempotency('acme', 'h1');
    unit.guard({ key, is: 'absent' });
    unit.write({ put: key, value: '{}' });
    unit.create('project', randomId(), desiredState('project'));
    await expectCommitted(unit);
    const again = repo.begin();
    again.guard({ key, is: 'absent' });
    again.create('project', randomId(), desiredState('project'));
    expect(await failureOf(again)).toEqual({ why: 'key', key });
  });

  it('is committed once', async () => {
    const unit = repo.begin();
    unit.create('project', randomId(), desiredState('project'));
    await expectCommitted(unit);
    await expect(unit.commit()).rejects.toThrow('twice');
  });
});

describe('labels', () => {
  it('are written also in the instant in which the object was made', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.label(it, { tier: 'web' });
    await expectCommitted(unit);
    expect((await repo.get('project', it.meta.id))?.meta.labels).toEqual({ tier: 'web' });
  });

  it('are replaced without a new generation', async () => {
    const it = await create('a');
    await clock.advance(1000);
    const unit = repo.begin();
    unit.label(it, { tier: 'web' });
    await expectCommitted(unit);
    const labelled = await repo.get('project', it.meta.id);
    expect(labelled?.meta).toMatchObject({
      generation: 1,
      labels: { tier: 'web' },
      updatedAt: '2030-01-01T00:00:01.000Z',
    });
    const before = await store.revision();
    const same = repo.begin();
    same.label(labelled!, { tier: 'web' });
    await expectCommitted(same);
    expect(await store.revision()).toBe(before);
  });
});

describe('deletion', () => {
  it('of an object without finalizers takes its records and names at once', async () => {
    const unit = repo.begin();
    const it = unit.create('user', randomId(), desiredState('user'));
    unit.write({ put: keys.events('acme', 'user', it.meta.id), value: '{}' });
    await expectCommitted(unit);
    const deletion = repo.begin();
    deletion.requestDelete(it);
    await expectCommitted(deletion);
    expect(await allKeys()).toEqual([]);
  });

  it('of an object with finalizers is a mark, set once, in a new generation', async () => {
    const it = await create('a');
    const unit = repo.begin();
    await clock.advance(1000);
    unit.requestDelete(it);
    await expectCommitted(unit);
    const marked = await repo.get('project', it.meta.id);
    expect(marked?.meta).toMatchObject({ generation: 2, deletionRequestedAt: '2030-01-01T00:00:01.000Z' });
    await clock.advance(1000);
    const again = repo.begin();
    again.requestDelete(marked!);
    await expectCommitted(again);
    expect(await repo.get('project', it.meta.id)).toEqual(marked);
    expect(await repo.idByName('project', 'all', 'a')).toBe(it.meta.id);
  });

  it('is complete when the last finalizer is released, in one revision', async () => {
    const created = repo.begin();
    const it = created.create('project', randomId(), desiredState('project', { name: 'a' }));
    await expectCommitted(created);
    await repo.observe(it, projectObserved('active'), []);
    const deletion = repo.begin();
    const read = (await repo.get('project', it.meta.id))!;
    deletion.requestDelete(read);
    await expectCommitted(deletion);
    const marked = (await repo.get('project', it.meta.id))!;
    const other = repo.begin();
    other.release(marked, 'of-another-controller');
    await expectCommitted(other);
    expect(await repo.get('project', it.meta.id)).toEqual(marked);
    const before = await store.revision();
    const release = repo.begin();
    release.release(marked, 'project');
    await expectCommitted(release);
    expect(await allKeys()).toEqual([]);
    expect(await store.revision()).toBe(before + 1);
  });

  it('waits for the request: a release alone takes the finalizer and keeps the object and its generation', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.release(it, 'project');
    await expectCommitted(unit);
    const released = await repo.get('project', it.meta.id);
    expect(released?.meta).toMatchObject({ finalizers: [], generation: 1, updatedAt: it.meta.updatedAt });
    const deletion = repo.begin();
    deletion.requestDelete(released!);
    await expectCommitted(deletion);
    expect(await repo.get('project', it.meta.id)).toBeUndefined();
  });

  it('may be requested and released in one unit', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.requestDelete(it);
    unit.release(it, 'project');
    unit.requestDelete(it);
    await expectCommitted(unit);
    expect(await allKeys()).toEqual([]);
  });

  it('of a name that was changed in the same unit frees the name that was stored', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.change(it, (draft) => (draft.name = 'b'));
    unit.release(it, 'project');
    unit.requestDelete(it);
    await expectCommitted(unit);
    expect(await allKeys()).toEqual([]);
  });

  it('of an object that the unit creates leaves nothing', async () => {
    const unit = repo.begin();
    unit.requestDelete(unit.create('user', randomId(), desiredState('user')));
    await expectCommitted(unit);
    expect(await allKeys()).toEqual([]);
  });

  it('cannot be followed by a change in the same unit', async () => {
    const unit = repo.begin();
    const it = unit.create('user', randomId(), desiredState('user'));
    unit.requestDelete(it);
    expect(() => unit.change(it, (draft) => (draft.disabled = true))).toThrow('this unit deletes it');
  });

  it('is refused if the object changed since it was read', async () => {
    const it = await create('a');
    await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    const unit = repo.begin();
    unit.requestDelete(it);
    expect(await failureOf(unit)).toMatchObject({ why: 'changed' });
  });
});

describe('an observation', () => {
  it('is written beside the desired state and changes neither generation nor desired revision', async () => {
    const it = await create('a');
    const { written, revision } = await repo.observe(it, projectObserved('active'), []);
    expect(written).toBe(true);
    expect(await repo.get('project', it.meta.id)).toEqual({
      meta: { ...it.meta, observedRevision: revision },
      desired: it.desired,
      observed: projectObserved('active'),
    });
  });

  it('that is equal writes nothing', async () => {
    const it = await create('a');
    const { revision } = await repo.observe(it, projectObserved('active'), []);
    const read = (await repo.get('project', it.meta.id))!;
    expect(await repo.observe(read, projectObserved('active'), [])).toEqual({ written: false, revision });
    expect(await store.revision()).toBe(revision);
  });

  it.each([
    ['the phase', projectObserved('deleting')],
    ['the observed generation', projectObserved('active', 2)],
    ['a condition', { ...projectObserved('active'), conditions: [] }],
  ])('that differs in %s is written', async (_, observed) => {
    const it = await create('a');
    await repo.observe(it, projectObserved('active'), []);
    const read = (await repo.get('project', it.meta.id))!;
    expect(await repo.observe(read, observed, [])).toMatchObject({ written: true });
    expect((await repo.get('project', it.meta.id))?.observed).toEqual(observed);
  });

  it('by a writer that read an older one is a conflict', async () => {
    const it = await create('a');
    await repo.observe(it, projectObserved('active'), []);
    const reason = await reasonOf(repo.observe(it, projectObserved('deleting'), []));
    expect(reason).toEqual({ why: 'changed', ref: { kind: 'project', id: it.meta.id } });
  });

  it('of an object that is gone is a conflict and brings nothing back', async () => {
    const it = await create('a');
    const deletion = repo.begin();
    deletion.requestDelete(it);
    deletion.release(it, 'project');
    await expectCommitted(deletion);
    const gone = { why: 'gone', ref: { kind: 'project', id: it.meta.id } };
    expect(await reasonOf(repo.observe(it, projectObserved('active'), []))).toEqual(gone);
    const unit = repo.begin();
    unit.observe(it, projectObserved('active'));
    expect(await failureOf(unit)).toEqual(gone);
    expect(await allKeys()).toEqual([]);
  });

  it('by a deposed writer fails at its fence', async () => {
    const it = await create('a');
    const key = keys.leader('controllers');
    const epoch = (await store.txn({ if: [], then: [{ put: key, value: 'r1' }] })).revision;
    await repo.observe(it, projectObserved('active'), [{ key, is: 'at', revision: epoch }]);
    await store.txn({ if: [], then: [{ put: key, value: 'r2' }] });
    const read = (await repo.get('project', it.meta.id))!;
    const late = repo.observe(read, projectObserved('deleting'), [{ key, is: 'at', revision: epoch }]);
    expect(await reasonOf(late)).toEqual({ why: 'key', key });
  });

  it('ignores a change of the desired state: the writer sees it by the generation', async () => {
    const it = await create('a');
    await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    expect(await repo.observe(it, projectObserved('active', 1), [])).toMatchObject({ written: true });
  });

  it('that cannot be read any more can be replaced by its writer', async () => {
    const it = await create('a');
    const key = keys.observed('acme', 'project', it.meta.id);
    await store.txn({ if: [], then: [{ put: key, value: '{"v":1,"observed":{"phase":"unheard-of"}}' }] });
    const read = (await repo.get('project', it.meta.id))!;
    expect(read.observed).toBeUndefined();
    await repo.observe(read, projectObserved('active'), []);
    expect((await repo.get('project', it.meta.id))?.observed).toEqual(projectObserved('active'));
  });

  it('of several objects fits one unit', async () => {
    const a = await create('a');
    const b = await create('b');
    const unit = repo.begin();
    unit.observe(a, projectObserved('deleting'));
    unit.observe(a, projectObserved('active'));
    unit.observe(b, projectObserved('active'));
    const { revision } = await unit.commit();
    for (const { meta } of [a, b])
      expect(await repo.get('project', meta.id)).toMatchObject({
        meta: { observedRevision: revision, generation: 1 },
        observed: { phase: 'active' },
      });
    const again = repo.begin();
    for (const { meta } of [a, b]) again.observe((await repo.get('project', meta.id))!, projectObserved('active'));
    await again.commit();
    expect(await store.revision()).toBe(revision);
  });

  it('in a unit with the last release is left out, as the object goes', async () => {
    const it = await create('a');
    const unit = repo.begin();
    unit.observe(it, projectObserved('deleting'));
    unit.requestDelete(it);
    unit.release(it, 'project');
    await expectCommitted(unit);
    expect(await allKeys()).toEqual([]);
  });
});

describe('a record of a newer version', () => {
  it('keeps what this version does not know through changes, labels and observations', async () => {
    const it = await create('a');
    const key = keys.desired('acme', 'project', it.meta.id);
    const record = (await stored('project', it.meta.id)) as Record<string, object>;
    const newer = { ...record, v: 7, pause: { since: 1 }, desired: { ...record['desired'], budget: { euro: 3 } } };
    await store.txn({ if: [], then: [{ put: key, value: JSON.stringify(newer) }] });

    const read = (await repo.get('project', it.meta.id)) as ReadonlyResource<'project'>;
    expect(read.desired).not.toHaveProperty('budget');
    const unit = repo.begin();
    unit.change(read, (draft) => (draft.description = 'b'));
    unit.label(read, { tier: 'web' });
    unit.change(read, (draft) => (draft.display_name = 'c'));
    await expectCommitted(unit);

    expect(await stored('project', it.meta.id)).toMatchObject({
      v: 7,
      generation: 2,
      pause: { since: 1 },
      labels: { tier: 'web' },
      desired: { budget: { euro: 3 }, description: 'b', display_name: 'c' },
    });
  });
});

describe('what comes into an object', () => {
  const marker = (environment: string): string => keys.population('acme', 'environment', environment);

  async function place() {
    const unit = repo.begin();
    const environment = unit.create('environment', randomId(), desiredState('environment'));
    await expectCommitted(unit);
    return environment as ReadonlyResource<'environment'>;
  }

  function enter(environment: ReadonlyResource<'environment'>, name: string): CommittableUnit {
    const unit = repo.begin();
    unit.require(environment);
    unit.create('application', randomId(), desiredState('application', { name, environment_id: environment.meta.id }));
    return unit;
  }

  it('makes a transaction fail that had found the object empty', async () => {
    const it = await place();
    await expectCommitted(enter(it, 'first'));
    const unit = repo.begin();
    unit.requestDelete(it);
    await unit.holdPopulation(it);
    await expectCommitted(enter(it, 'second'));
    expect(await failureOf(unit)).toEqual({ why: 'changed', ref: { kind: 'environment', id: it.meta.id } });
  });

  it('does so too where nothing ever was', async () => {
    const it = await place();
    const unit = repo.begin();
    unit.requestDelete(it);
    await unit.holdPopulation(it);
    await expectCommitted(enter(it, 'first'));
    expect(await failureOf(unit)).toMatchObject({ why: 'changed' });
  });

  it('never meets what comes in at the same time', async () => {
    const it = await place();
    const units = ['one', 'two', 'three'].map((name) => enter(it, name));
    for (const unit of units) await expectCommitted(unit);
  });

  it('is noticed where it moves to, and nowhere when another field changes', async () => {
    const [from, to] = [await place(), await place()];
    const unit = enter(from, 'mover');
    await expectCommitted(unit);
    const id = holderOf((await store.get(marker(from.meta.id)))?.value ?? '{}') ?? '';
    const before = await store.get(marker(from.meta.id));
    await repo.change('application', id, (draft) => void (draft.replicas = 3));
    await repo.change('application', id, (draft) => void (draft.environment_id = to.meta.id));
    expect(await store.get(marker(from.meta.id))).toEqual(before);
    expect(holderOf((await store.get(marker(to.meta.id)))?.value ?? '{}')).toBe(id);
  });

  it('leaves no marker behind when the object goes', async () => {
    const it = await place();
    await expectCommitted(enter(it, 'first'));
    const unit = repo.begin();
    unit.requestDelete(it);
    unit.release(it, 'environment');
    await expectCommitted(unit);
    expect(await store.get(marker(it.meta.id))).toBeUndefined();
  });
});
