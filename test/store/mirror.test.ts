import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { compacted, rewound, unavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { KeyChange, Mirror, MirrorOptions, ObjectChange } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { Resource } from '../../store/resource.ts';
import { revision } from '../../store/revision.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { KeyRange, ListOptions, Page, Store } from '../../store/store.ts';
import { randomId } from '../harness/random-id.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { eagerClock } from '../harness/eager-clock.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

let backend: Store & AsyncDisposable;
let store: InterruptibleStore;
let repo: Repository;
let cleanup: AsyncDisposableStack;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  backend = cleanup.use(await openSqlite({ path: ':memory:' }));
  store = new InterruptibleStore(backend);
  repo = openRepository(store, 'acme', systemClock);
});

afterEach(() => cleanup.disposeAsync());

function start(options: Partial<MirrorOptions> = {}): Mirror {
  const log = pino({ level: 'silent' });
  return cleanup.use(startMirror({ store, clock: eagerClock, log, ...options }));
}

async function started(options: Partial<MirrorOptions> = {}): Promise<Mirror> {
  const mirror = start(options);
  await mirror.ready;
  return mirror;
}

async function upToDate(mirror: Mirror): Promise<void> {
  await mirror.reached(await store.revision(), AbortSignal.timeout(5000));
}

async function create(name: string): Promise<Resource<'project'>> {
  const unit = repo.begin();
  const it = unit.create('project', randomId(), desiredState('project', { name }));
  await unit.commit();
  return it;
}

async function put(key: string, value: string): Promise<void> {
  await store.txn({ if: [], then: [{ put: key, value }] });
}

function record<T>(subscribe: (listener: (change: T) => void) => () => void): T[] {
  const changes: T[] = [];
  subscribe((change) => changes.push(change));
  return changes;
}

function objectChanges(mirror: Mirror): ObjectChange[] {
  return record((listener) => mirror.subscribe(listener));
}

function keyChanges(mirror: Mirror): KeyChange[] {
  return record((listener) => mirror.subscribeKeys(listener));
}

const iconBytes = 700_000;

async function putIcons(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await put(keys.bytes('acme', 'project', randomId()), 'x'.repeat(iconBytes));
}

/** A store behind a network that carries at most 4 MiB within the deadline of a call. */
class BoundedStore extends InterruptibleStore {
  readonly came: ListOptions[] = [];
  refused = 0;

  override async list(range: KeyRange, options: ListOptions = {}): Promise<Page> {
    const page = await super.list(range, options);
    const bytes = page.entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    if (bytes > 4 * 1024 * 1024) {
      this.refused++;
      throw unavailable(`a page of ${bytes} bytes did not come in time`);
    }
    this.came.push(options);
    return page;
  }
}

describe('a mirror that starts', () => {
  it('is empty and not ready, then holds everything of one revision', async () => {
    const it = await create('a');
    const mirror = start();
    expect(mirror.isReady).toBe(false);
    expect(mirror.applied).toBe(0);
    expect(mirror.tenant('acme').list('project')).toEqual([]);
    await mirror.ready;
    expect(mirror.isReady).toBe(true);
    expect(mirror.applied).toBe(await store.revision());
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
  });

  it('delivers everything as initial to earlier subscribers, in the order of creation', async () => {
    const clock = new FakeClock();
    repo = openRepository(store, 'acme', clock);
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) {
      ids.push((await create(`p${n}`)).meta.id);
      await clock.advance(1);
    }
    await put(keys.replica('r1'), 'here');
    const mirror = start();
    const [objects, changed] = [objectChanges(mirror), keyChanges(mirror)];
    await mirror.ready;
    expect(objects.map((change) => change.id)).toEqual(ids);
    for (const change of objects) expect(change).toMatchObject({ tenant: 'acme', initial: true, part: 'desired' });
    expect(changed.filter((change) => change.key === keys.replica('r1'))).toEqual([
      { key: keys.replica('r1'), after: 'here', revision: mirror.applied, initial: true },
    ]);
  });

  it('reads more than one page', async () => {
    for (let page = 0; page < 125; page++) {
      const unit = repo.begin();
      for (let n = 0; n < 10; n++) unit.create('project', randomId(), desiredState('project'));
      await unit.commit();
    }
    const mirror = await started();
    expect(mirror.tenant('acme').list('project')).toHaveLength(1250);
  });

  it('keeps trying while the store does not answer', async () => {
    await create('a');
    store.failure = unavailable('the test says so');
    const mirror = start();
    await settle();
    expect(mirror.isReady).toBe(false);
    store.failure = undefined;
    await mirror.ready;
    expect(mirror.tenant('acme').list('project')).toHaveLength(1);
  });

  it('gets smaller pages where a page has too many bytes to come in time, and goes on from the page that failed', async () => {
    await create('a');
    await putIcons(20);
    const bounded = new BoundedStore(backend);
    const mirror = start({ store: bounded });
    await mirror.ready;
    expect(mirror.tenant('acme').list('project')).toHaveLength(1);
    expect(mirror.usage.ofTenant('acme').bytes).toBeGreaterThan(20 * iconBytes);
    expect(bounded.refused).toBeGreaterThan(0);
    // no page that came is asked for again
    const came = bounded.came.map(({ after }) => after);
    expect(new Set(came).size).toBe(came.length);
    expect(new Set(bounded.came.slice(1).map(({ at }) => at)).size).toBe(1);
  });

  it('that is closed before it was filled says so to those who wait', async () => {
    store.failure = unavailable('the test says so');
    const mirror = start();
    await mirror.close();
    await expect(mirror.ready).rejects.toThrow('Mirror is closed');
  });
});

describe('a change of an object', () => {
  it('of the desired state is delivered with the object before and after', async () => {
    const it = await create('a');
    const mirror = await started();
    const changes = objectChanges(mirror);
    const after = await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    await upToDate(mirror);
    expect(changes).toEqual([
      {
        tenant: 'acme',
        kind: 'project',
        id: it.meta.id,
        before: it,
        after,
        revision: mirror.applied,
        initial: false,
        part: 'desired',
      },
    ]);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toBe(changes[0]?.after);
  });

  it('of the observed state is delivered as such and leaves the desired state untouched', async () => {
    const it = await create('a');
    const mirror = await started();
    const before = mirror.tenant('acme').get('project', it.meta.id);
    const changes = objectChanges(mirror);
    await repo.observe(it, projectObserved('active'), []);
    await upToDate(mirror);
    expect(changes).toMatchObject([{ part: 'observed', after: { observed: { phase: 'active' } } }]);
    expect(changes[0]?.after?.desired).toBe(before?.desired);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(await repo.get('project', it.meta.id));
  });

  it('is delivered when all of its revision is visible', async () => {
    const mirror = await started();
    const seen: [string, number, boolean][] = [];
    mirror.subscribe(({ id }) => seen.push([id, mirror.tenant('acme').list('project').length, mirror.applied > 0]));
    const unit = repo.begin();
    for (const name of ['a', 'b', 'c']) unit.create('project', randomId(), desiredState('project', { name }));
    const { revision: at } = await unit.commit();
    await mirror.reached(at, AbortSignal.timeout(5000));
    expect(seen.map(([, count]) => count)).toEqual([3, 3, 3]);
  });

  it('of both records in one revision is delivered once for each', async () => {
    const it = await create('a');
    const mirror = await started();
    const changes = objectChanges(mirror);
    const unit = repo.begin();
    unit.change(it, (draft) => (draft.description = 'b'));
    unit.observe(it, projectObserved('active'));
    await unit.commit();
    await upToDate(mirror);
    expect(changes.map((change) => change.part)).toEqual(['desired', 'observed']);
    expect(changes[0]?.after).toBe(changes[1]?.after);
  });

  it('that deletes it is delivered once, and the object is gone with both records', async () => {
    const it = await create('a');
    await repo.observe(it, projectObserved('active'), []);
    const mirror = await started();
    const changes = objectChanges(mirror);
    const unit = repo.begin();
    const read = (await repo.get('project', it.meta.id))!;
    unit.requestDelete(read);
    unit.release(read, 'project');
    await unit.commit();
    await upToDate(mirror);
    expect(changes).toMatchObject([{ part: 'desired', id: it.meta.id, before: { observed: { phase: 'active' } } }]);
    expect(changes[0]).not.toHaveProperty('after');
    expect(mirror.tenant('acme').get('project', it.meta.id)).toBeUndefined();
    expect(mirror.tenant('acme').list('project')).toEqual([]);
  });

  it('does not make an object of an observed record alone', async () => {
    const id = randomId();
    const mirror = await started();
    const changes = objectChanges(mirror);
    await put(keys.observed('acme', 'project', id), JSON.stringify({ v: 1, ...envelopeOf('active') }));
    await upToDate(mirror);
    expect(changes).toEqual([]);
    expect(mirror.tenant('acme').get('project', id)).toBeUndefined();
  });

  it('is delivered to the other listeners when one of them throws', async () => {
    const mirror = await started();
    mirror.subscribe(() => {
      throw new Error('defect of a listener');
    });
    const changes = objectChanges(mirror);
    await create('a');
    await upToDate(mirror);
    expect(changes).toHaveLength(1);
  });

  it('is delivered no more after the subscription ended', async () => {
    const mirror = await started();
    const changes: ObjectChange[] = [];
    const listener = (change: ObjectChange): void => void changes.push(change);
    const [endOne, endOther] = [mirror.subscribe(listener), mirror.subscribe(listener)];
    endOne();
    await create('a');
    await upToDate(mirror);
    expect(changes).toHaveLength(1);
    endOther();
    await create('b');
    await upToDate(mirror);
    expect(changes).toHaveLength(1);
  });
});

describe('a view of a tenant', () => {
  it('shows nothing of another tenant', async () => {
    const it = await create('a');
    const mirror = await started();
    const other = mirror.tenant('other');
    expect(other.get('project', it.meta.id)).toBeUndefined();
    expect(other.list('project')).toEqual([]);
    expect(other.by('project', 'owner', it.desired.owner_id)).toEqual([]);
    expect(mirror.tenant('acm').list('project')).toEqual([]);
  });

  it('lists by creation, then by id, and the same array while nothing changes', async () => {
    const clock = new FakeClock();
    repo = openRepository(store, 'acme', clock);
    const mirror = await started();
    const made: Resource<'project'>[] = [];
    for (let n = 0; n < 10; n++) {
      if (n % 3 === 0) await clock.advance(1);
      made.push(await create(`p${n}`));
    }
    await upToDate(mirror);
    const view = mirror.tenant('acme');
    const expected = made.toSorted((a, b) => (a.meta.createdAt + a.meta.id < b.meta.createdAt + b.meta.id ? -1 : 1));
    expect(view.list('project')).toEqual(expected);
    expect(view.list('project')).toBe(mirror.tenant('acme').list('project'));
  });

  it('finds by the declared indexes, by owner and by label, and follows their changes', async () => {
    const unit = repo.begin();
    const server = randomId();
    const it = unit.create('application', randomId(), desiredState('application', { server_id: server }), {
      labels: { tier: 'web', 'a=b': 'c' },
    });
    await unit.commit();
    const mirror = await started();
    const view = mirror.tenant('acme');
    const found = (index: string, value: string): string[] =>
      view.by('application', index, value).map((one) => one.meta.id);
    expect(found('server', server)).toEqual([it.meta.id]);
    expect(found('owner', it.desired.environment_id)).toEqual([it.meta.id]);
    expect(found('label', 'tier=web')).toEqual([it.meta.id]);
    expect(found('label', 'tier=db')).toEqual([]);

    const [elsewhere, environment] = [randomId(), randomId()];
    const change = repo.begin();
    change.change(it, (draft) => {
      draft.server_id = elsewhere;
      draft.environment_id = environment;
    });
    change.label(it, { tier: 'db' });
    await change.commit();
    await upToDate(mirror);
    expect([found('server', server), found('owner', it.desired.environment_id), found('label', 'tier=web')]).toEqual([
      [],
      [],
      [],
    ]);
    expect([found('server', elsewhere), found('owner', environment), found('label', 'tier=db')]).toEqual([
      [it.meta.id],
      [it.meta.id],
      [it.meta.id],
    ]);
    expect(view.by('application', 'server', elsewhere)[0]).toBe(view.get('application', it.meta.id));
  });

  it('finds by what was observed, as it changes', async () => {
    const unit = repo.begin();
    const [id, project] = [randomId(), randomId()];
    const expires_at = '2031-01-01T00:00:00Z';
    const desired = {
      project_id: project,
      email: 'a@b.c',
      role: 'viewer',
      invited_by: randomId(),
      expires_at,
    } as const;
    const it = unit.create('invite', id, { ...desired, state: 'pending' });
    await unit.commit();
    const mirror = await started();
    const found = (hash: string): number => mirror.tenant('acme').by('invite', 'token', hash).length;
    expect(found('one')).toBe(0);
    const observe = async (token_hashes: string[]): Promise<void> => {
      const now = (await repo.get('invite', it.meta.id))!;
      await repo.observe(now, { token_hashes, observedGeneration: 1, conditions: [] }, []);
      await upToDate(mirror);
    };
    await observe(['one', 'two']);
    expect([found('one'), found('two')]).toEqual([1, 1]);
    await observe(['two', 'three']);
    expect([found('one'), found('two'), found('three')]).toEqual([0, 1, 1]);
    const again = await started();
    expect(again.tenant('acme').by('invite', 'token', 'three')).toHaveLength(1);
  });

  it('refuses an index that the kind does not declare', async () => {
    await create('a');
    const mirror = await started();
    expect(() => mirror.tenant('acme').by('project', 'colour', 'red')).toThrow('no index of that name: colour');
    expect(() => mirror.tenant('nobody').by('project', 'colour', 'red')).toThrow('no index of that name: colour');
  });

  it('shows the live session of an agent with its epoch', async () => {
    const mirror = await started();
    const view = mirror.tenant('acme');
    expect(view.agent('s1')).toBeUndefined();
    const key = keys.agent('acme', 's1');
    await put(key, JSON.stringify({ replica: 'r1', session: 'x', machineId: 'm', agentVersion: '1.2.3' }));
    await upToDate(mirror);
    expect(view.agent('s1')).toEqual({
      replica: 'r1',
      session: 'x',
      machineId: 'm',
      agentVersion: '1.2.3',
      epoch: mirror.applied,
    });
    await store.txn({ if: [], then: [{ delete: key }] });
    await upToDate(mirror);
    expect(view.agent('s1')).toBeUndefined();
  });

  it('gives frozen objects, unless asked otherwise', async () => {
    const it = await create('a');
    const frozen = (await started()).tenant('acme').get('project', it.meta.id) as Resource<'project'>;
    expect(() => (frozen.desired.name = 'b')).toThrow(TypeError);
    expect(() => frozen.meta.finalizers.push('b')).toThrow(TypeError);
    const open = (await started({ freeze: false })).tenant('acme').get('project', it.meta.id) as Resource<'project'>;
    open.desired.name = 'b';
    expect(open.desired.name).toBe('b');
  });
});

describe('keys that are no objects', () => {
  it('are read by their name and under a prefix, in order', async () => {
    await put(keys.replica('b'), '2');
    await put(keys.replica('a'), '1');
    await put(keys.leader('controllers'), 'a');
    const mirror = await started();
    expect(mirror.keysUnder('/setpoint/1/c/replica/').map(({ key, value }) => [key, value])).toEqual([
      [keys.replica('a'), '1'],
      [keys.replica('b'), '2'],
    ]);
    expect(mirror.key(keys.leader('controllers'))).toEqual({
      key: keys.leader('controllers'),
      value: 'a',
      revision: mirror.applied,
    });
    expect(mirror.key(keys.leader('other'))).toBeUndefined();
  });

  it('are delivered when they change and when they go', async () => {
    const mirror = await started();
    const changes = keyChanges(mirror);
    const key = keys.leader('controllers');
    await put(key, 'a');
    await put(key, 'b');
    await store.txn({ if: [], then: [{ delete: key }] });
    await upToDate(mirror);
    expect(changes.map(({ before, after }) => [before, after])).toEqual([
      [undefined, 'a'],
      ['a', 'b'],
      ['b', undefined],
    ]);
  });

  it('name the tenants, and so do the objects', async () => {
    await create('a');
    await put(keys.tenant('registered'), '{}');
    const mirror = await started();
    expect(mirror.tenants()).toEqual(['acme', 'registered']);
  });
});

describe('waiting for a revision', () => {
  it('ends when it is applied', async () => {
    const mirror = await started();
    const it = await create('a');
    await mirror.reached(it.meta.desiredRevision, AbortSignal.timeout(5000));
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
  });

  it('ends with the reason of its signal', async () => {
    const mirror = await started();
    const ahead = revision(mirror.applied + 1000);
    await expect(mirror.reached(ahead, AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late');
    const controller = new AbortController();
    const waiting = mirror.reached(ahead, controller.signal);
    controller.abort(new Error('given up'));
    await expect(waiting).rejects.toThrow('given up');
  });

  it('does not end before the mirror is filled', async () => {
    store.failure = unavailable('the test says so');
    const mirror = start();
    await expect(mirror.reached(revision(0), AbortSignal.timeout(20))).rejects.toThrow();
    store.failure = undefined;
    await mirror.reached(revision(0), AbortSignal.timeout(5000));
    expect(mirror.isReady).toBe(true);
  });

  it('ends also for a revision that changed nothing here', async () => {
    const mirror = await started();
    await store.txn({ if: [], then: [{ put: '/elsewhere', value: 'x' }] });
    await upToDate(mirror);
    expect(mirror.applied).toBe(await store.revision());
  });
});

describe('an interrupted mirror', () => {
  it('goes on where it was after a cut, without telling anything twice', async () => {
    const mirror = await started();
    const changes = objectChanges(mirror);
    for (let n = 0; n < 10; n++) {
      await create(`p${n}`);
      store.cut(unavailable('cut'));
    }
    await upToDate(mirror);
    expect(changes.map((change) => change.after?.desired)).toMatchObject(
      Array.from({ length: 10 }, (_, n) => ({ name: `p${n}` })),
    );
    expect(store.watches).toBeGreaterThan(1);
  });

  it('lists again when history was compacted, delivers differences only and keeps what is equal', async () => {
    const [kept, changed, deleted] = [await create('kept'), await create('changed'), await create('deleted')];
    await put(keys.leader('controllers'), 'a');
    await put(keys.replica('r1'), 'here');
    const mirror = await started();
    const [objects, others] = [objectChanges(mirror), keyChanges(mirror)];
    const before = mirror.tenant('acme').get('project', kept.meta.id);
    store.failure = unavailable('down');
    store.cut(unavailable('cut'));
    const behind = openRepository(backend, 'acme', systemClock);
    await behind.change('project', changed.meta.id, (draft) => (draft.description = 'b'));
    const unit = behind.begin();
    unit.requestDelete(deleted);
    unit.release(deleted, 'project');
    const created = unit.create('project', randomId(), desiredState('project', { name: 'created' }));
    unit.write({ delete: keys.replica('r1') });
    await unit.commit();
    await backend.compact(await backend.revision());
    store.failure = undefined;
    await upToDate(mirror);
    expect(new Map(objects.map((change) => [change.id, [!!change.before, !!change.after, change.initial]]))).toEqual(
      new Map([
        [changed.meta.id, [true, true, false]],
        [deleted.meta.id, [true, false, false]],
        [created.meta.id, [false, true, false]],
      ]),
    );
    expect(objects).toHaveLength(3);
    expect(mirror.tenant('acme').get('project', kept.meta.id)).toBe(before);
    expect(others.filter(({ key }) => !key.includes('/u/'))).toMatchObject([
      { key: keys.replica('r1'), before: 'here' },
    ]);
  });

  it('delivers nothing when a compaction took history, but nothing was different', async () => {
    await create('a');
    const mirror = await started();
    const changes = objectChanges(mirror);
    store.cut(compacted(mirror.applied));
    while (store.watches < 2) await settle(1);
    const it = await create('b');
    await upToDate(mirror);
    expect(changes.map((change) => change.id)).toEqual([it.meta.id]);
  });

  it('becomes equal to a store that was restored, and does not take its old revision for a newer one', async () => {
    const [kept, lost] = [await create('kept'), await create('lost')];
    for (let n = 0; n < 5; n++) await repo.change('project', lost.meta.id, (draft) => (draft.description = `${n}`));
    const mirror = await started();
    const changes = objectChanges(mirror);

    const restored = cleanup.use(await openSqlite({ path: ':memory:' }));
    const unit = openRepository(restored, 'acme', systemClock).begin();
    unit.create('project', kept.meta.id, kept.desired);
    const found = unit.create('project', randomId(), desiredState('project', { name: 'found' }));
    await unit.commit();
    store.replace(restored, rewound(restored.incarnation, 'restored'));

    await mirror.reached(await store.revision(), AbortSignal.timeout(5000));
    expect(mirror.applied).toBe(await restored.revision());
    expect(mirror.tenant('acme').get('project', lost.meta.id)).toBeUndefined();
    expect(mirror.tenant('acme').get('project', found.meta.id)).toEqual(found);
    expect(changes.find(({ id }) => id === lost.meta.id)).not.toHaveProperty('after');
    await create('after');
    await upToDate(mirror);
    expect(mirror.tenant('acme').list('project')).toHaveLength(3);
  });

  it('notices another history also when it is longer than its own', async () => {
    const it = await create('a');
    const mirror = await started();
    const other = cleanup.use(await openSqlite({ path: ':memory:' }));
    const elsewhere = openRepository(other, 'acme', systemClock);
    for (let n = 0; n < 20; n++) {
      const unit = elsewhere.begin();
      unit.create('project', randomId(), desiredState('project'));
      await unit.commit();
    }
    store.replace(other, unavailable('cut'));
    await upToDate(mirror);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toBeUndefined();
    expect(mirror.tenant('acme').list('project')).toHaveLength(20);
  });

  it('does not take what stands at the same revision of another history for the same', async () => {
    const [key, id] = [keys.leader('controllers'), randomId()];
    async function write(to: Store, text: string): Promise<void> {
      await to.txn({ if: [], then: [{ put: key, value: text }] });
      const unit = openRepository(to, 'acme', systemClock).begin();
      unit.create('project', id, desiredState('project', { name: 'same', description: text }));
      await unit.commit();
    }
    await write(backend, 'old');
    const mirror = await started();
    const other = cleanup.use(await openSqlite({ path: ':memory:' }));
    await write(other, 'new');
    store.replace(other, rewound(other.incarnation, 'replaced'));
    await upToDate(mirror);
    expect(mirror.key(key)?.value).toBe('new');
    expect(mirror.tenant('acme').get('project', id)?.desired.description).toBe('new');
  });

  it('waits longer after each failure, at most a second, and forgets them when something arrives', async () => {
    const clock = new FakeClock();
    const mirror = await started({ clock, random: () => 1 });
    await settle();
    const waits: number[] = [];
    for (let n = 0; n < 10; n++) {
      const watches = store.watches;
      store.cut(unavailable('cut'));
      await settle();
      let waited = 0;
      while (store.watches === watches) {
        await clock.advance(100);
        waited += 100;
      }
      waits.push(waited);
    }
    expect(waits).toEqual([100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000]);
    await put(keys.replica('r1'), 'here');
    await settle();
    const watches = store.watches;
    store.cut(unavailable('cut'));
    await settle();
    await clock.advance(100);
    expect(store.watches).toBe(watches + 1);
    expect(mirror.isReady).toBe(true);
  });

  it('is up to date a second after a store that was away for long is back', async () => {
    const clock = new FakeClock();
    const mirror = await started({ clock, random: () => 1 });
    store.failure = unavailable('down');
    store.cut(unavailable('cut'));
    await clock.advance(120_000);
    store.failure = undefined;
    const it = await create('a');
    await clock.advance(1000);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
  });

  it('lists at most every 30 s while what comes after the list cannot be taken', async () => {
    const clock = new FakeClock();
    await started({ clock, random: () => 1 });
    const broken = new InterruptibleStore(backend);
    let lists = 0;
    broken.list = (...args) => {
      lists += 1;
      return backend.list(...args);
    };
    broken.watch = () => {
      throw new TypeError('defect');
    };
    start({ store: broken, clock, random: () => 1 });
    await clock.advance(120_000);
    const before = lists;
    await clock.advance(120_000);
    expect(lists - before).toBe(4);
  });

  it('lists again after a failure that nobody foresaw, and misses nothing of what was being taken', async () => {
    const it = await create('a');
    const [one, two] = [keys.leader('a'), keys.leader('b')];
    let lists = 0;
    let isBroken = true;
    const poisoned = new InterruptibleStore(backend);
    poisoned.list = (...args) => {
      lists += 1;
      return backend.list(...args);
    };
    poisoned.watch = async function* (...args) {
      for await (const batch of backend.watch(...args)) {
        const [last] = batch.events.filter(({ key }) => isBroken && key === two);
        if (last !== undefined) {
          isBroken = false;
          // the first change of the revision is taken, the last cannot be
          Object.defineProperty(last, 'value', {
            get: () => {
              throw new TypeError('defect');
            },
          });
        }
        yield batch;
      }
    };
    const mirror = start({ store: poisoned });
    await mirror.ready;
    const before = lists;
    const unit = repo.begin();
    unit.change(it, (draft) => (draft.description = 'lost on the way'));
    unit.write({ put: one, value: '1' });
    unit.write({ put: two, value: '2' });
    expect((await unit.commit()).committed).toBe(true);
    await put(keys.leader('c'), '3');
    await upToDate(mirror);
    expect([one, two, keys.leader('c')].map((key) => mirror.key(key)?.value)).toEqual(['1', '2', '3']);
    expect(lists).toBe(before + 1);
    expect(mirror.tenant('acme').get('project', it.meta.id)?.desired.description).toBe('lost on the way');
  });

  it('lists all pages at one revision, whatever is written between them', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 40; n++) {
      const unit = repo.begin();
      for (let m = 0; m < 10; m++) {
        const id = randomId();
        ids.push(id);
        unit.create('project', id, desiredState('project'));
      }
      await unit.commit();
    }
    const key = [keys.leader('a'), keys.tenant('zzz')] as const;
    await store.txn({
      if: [],
      then: [
        { put: key[0], value: 'old' },
        { put: key[1], value: 'old' },
      ],
    });
    const pages: Page[] = [];
    const slow = new InterruptibleStore(backend);
    slow.list = async (range, options = {}) => {
      const page = await backend.list(range, { ...options, limit: 100 });
      // between any two pages something of the ones before and after changes
      if (pages.push(page) === 1)
        await backend.txn({
          if: [],
          then: [
            { put: key[0], value: 'new' },
            { put: key[1], value: 'new' },
            { delete: keys.desired('acme', 'project', ids[0]!) },
          ],
        });
      return page;
    };
    const mirror = start({ store: slow });
    const changed = keyChanges(mirror);
    const objects = objectChanges(mirror);
    await mirror.ready;
    expect(pages.length).toBeGreaterThan(3);
    expect(new Set(pages.map(({ revision: at }) => at)).size).toBe(1);
    const initial = changed.filter((change) => change.initial && (key as readonly string[]).includes(change.key));
    expect(initial.map((change) => change.after)).toEqual(['old', 'old']);
    expect(objects.filter((change) => change.initial)).toHaveLength(ids.length);
    await mirror.reached(await backend.revision(), AbortSignal.timeout(5000));
    expect(mirror.key(key[0])?.value).toBe('new');
    expect(mirror.tenant('acme').list('project')).toHaveLength(ids.length - 1);
  });

  it('is served while it is interrupted, and stops when it is closed', async () => {
    const it = await create('a');
    const mirror = await started();
    store.failure = unavailable('down');
    store.cut(unavailable('cut'));
    await settle();
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
    await mirror.close();
    const { watches } = store;
    await settle();
    expect(store.watches).toBe(watches);
  });
});

describe('a record that cannot be read', () => {
  it('leaves its object as it was, is counted, and heals with the next write', async () => {
    const registry = new Registry();
    const [it, other] = [await create('a'), await create('b')];
    const mirror = await started({ registry });
    const changes = objectChanges(mirror);
    const key = keys.desired('acme', 'project', it.meta.id);
    const good = (await store.get(key))!.value;
    await put(key, '{"v":1}');
    await repo.change('project', other.meta.id, (draft) => (draft.description = 'still followed'));
    await upToDate(mirror);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
    expect(changes.map((change) => change.id)).toEqual([other.meta.id]);
    expect(await gauge(registry, 'setpoint_mirror_unreadable_records')).toBe(1);
    await put(key, good);
    await upToDate(mirror);
    expect(await gauge(registry, 'setpoint_mirror_unreadable_records')).toBe(0);
    expect(mirror.tenant('acme').get('project', it.meta.id)?.meta.desiredRevision).toBe(mirror.applied);
  });

  it('does not keep a mirror from starting, and is not counted any more when it is deleted', async () => {
    const registry = new Registry();
    const key = keys.desired('acme', 'project', randomId());
    await put(key, 'nonsense');
    await put('/setpoint/1/t/acme/u/project/%/x', 'a key that cannot be understood');
    await put(keys.desired('acme', 'kind-of-the-future', randomId()), '{}');
    const mirror = await started({ registry });
    expect(await gauge(registry, 'setpoint_mirror_unreadable_records')).toBe(1);
    await store.txn({ if: [], then: [{ delete: key }] });
    await upToDate(mirror);
    expect(await gauge(registry, 'setpoint_mirror_unreadable_records')).toBe(0);
  });

  it('is forgotten by a list that does not have it any more', async () => {
    const registry = new Registry();
    const key = keys.desired('acme', 'project', randomId());
    await put(key, 'nonsense');
    const mirror = await started({ registry });
    store.failure = unavailable('down');
    store.cut(compacted(mirror.applied));
    await backend.txn({ if: [], then: [{ delete: key }] });
    store.failure = undefined;
    await upToDate(mirror);
    expect(await gauge(registry, 'setpoint_mirror_unreadable_records')).toBe(0);
  });

  it('of an observation keeps the last one, and its writer can replace it', async () => {
    const it = await create('a');
    await repo.observe(it, projectObserved('active'), []);
    const mirror = await started();
    await put(keys.observed('acme', 'project', it.meta.id), '{"v":1,"observed":{"phase":"unheard-of"}}');
    await upToDate(mirror);
    const seen = mirror.tenant('acme').get('project', it.meta.id)!;
    expect(seen.observed?.phase).toBe('active');
    expect(seen.meta.observedRevision).toBe(mirror.applied);
    expect(await repo.observe(seen, projectObserved('deleting'), [])).toMatchObject({ written: true });
    await upToDate(mirror);
    expect(mirror.tenant('acme').get('project', it.meta.id)?.observed?.phase).toBe('deleting');
  });

  it('of an agent shows no session', async () => {
    const mirror = await started();
    await put(keys.agent('acme', 's1'), '{"replica":1}');
    await upToDate(mirror);
    expect(mirror.tenant('acme').agent('s1')).toBeUndefined();
  });
});

describe('the metrics of a mirror', () => {
  it('show the revision, the lag, the objects and the interruptions', async () => {
    const registry = new Registry();
    const unit = repo.begin();
    unit.create('user', randomId(), desiredState('user'));
    unit.create('user', randomId(), desiredState('user'));
    unit.create('project', randomId(), desiredState('project'));
    await unit.commit();
    const mirror = await started({ registry });
    expect(await gauge(registry, 'setpoint_mirror_applied_revision')).toBe(mirror.applied);
    expect(await gauge(registry, 'setpoint_mirror_ready')).toBe(1);
    expect(await gauge(registry, 'setpoint_mirror_lag_revisions')).toBe(0);
    expect(await registry.metrics()).toContain('setpoint_mirror_objects{kind="user"} 2');
    store.failure = unavailable('down');
    store.cut(unavailable('cut'));
    await settle();
    const text = await registry.metrics();
    expect(text).toContain('setpoint_mirror_lag_revisions Nan');
    expect(text).toMatch(/setpoint_mirror_interruptions_total\{cause="unavailable"\} [1-9]/);
  });
});

async function gauge(registry: Registry, name: string): Promise<number | undefined> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.find((metric) => metric.name === name)?.values[0]?.value;
}

function envelopeOf(phase: 'active'): object {
  const { observedGeneration, conditions, ...observed } = projectObserved(phase);
  return { observedGeneration, conditions, observed };
}
