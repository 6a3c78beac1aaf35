import { Writable } from 'node:stream';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { compacted, unavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { KeyChange, Mirror, MirrorOptions, ObjectChange } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { Resource } from '../../store/resource.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Change, KeyRange, ListOptions, Page, Store } from '../../store/store.ts';
import { randomId } from '../harness/random-id.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { expectMirrored } from './mirrored.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

const minute = 60_000;
const everyMs = 5 * minute;

/** Its watches can lose changes and fall silent, and a page of a list can be waited for. */
class UnreliableStore extends InterruptibleStore {
  isLost: (change: Change) => boolean = () => false;
  /** Watches deliver nothing until it resolves. */
  silence: Promise<void> | undefined;
  /** Runs before each page is read. */
  beforeList: ((options: ListOptions) => Promise<void>) | undefined;
  readonly lists: ListOptions[] = [];

  override async *watch(...args: Parameters<Store['watch']>): ReturnType<InterruptibleStore['watch']> {
    const [, , signal] = args;
    for await (const { revision, events } of super.watch(...args)) {
      if (this.silence !== undefined) await Promise.race([this.silence, aborted(signal)]);
      if (signal.aborted) return;
      yield { revision, events: events.filter((event) => !this.isLost(event)) };
    }
  }

  override async list(range: KeyRange, options: ListOptions = {}): Promise<Page> {
    this.lists.push(options);
    await this.beforeList?.(options);
    return super.list(range, options);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

interface Line {
  level: number;
  msg: string;
  keys?: string[];
  count?: number;
}

let backend: Store & AsyncDisposable;
let store: UnreliableStore;
let repo: Repository;
let clock: FakeClock;
let registry: Registry;
let lines: Line[];
let cleanup: AsyncDisposableStack;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  backend = cleanup.use(await openSqlite({ path: ':memory:' }));
  store = new UnreliableStore(backend);
  repo = openRepository(store, 'acme', systemClock);
  clock = new FakeClock();
  registry = new Registry();
  lines = [];
});

afterEach(() => cleanup.disposeAsync());

async function started(options: Partial<MirrorOptions> = {}): Promise<Mirror> {
  const written = new Writable({
    write: (chunk, _, done) => {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  const log = pino({ level: 'info' }, written);
  const mirror = startMirror({ store, clock, log, registry, random: () => 1, checkEveryMs: everyMs, ...options });
  cleanup.use(mirror);
  await mirror.ready;
  return mirror;
}

async function create(name: string): Promise<Resource<'project'>> {
  const unit = repo.begin();
  const it = unit.create('project', randomId(), desiredState('project', { name }));
  await unit.commit();
  return it;
}

async function remove(it: Resource<'project'>): Promise<void> {
  const unit = repo.begin();
  unit.requestDelete(it);
  unit.release(it, 'project');
  await unit.commit();
}

async function put(key: string, value: string): Promise<void> {
  await store.txn({ if: [], then: [{ put: key, value }] });
}

/** Lets the next check come round and end. */
async function checked(): Promise<void> {
  const before = await counted('setpoint_mirror_checks_total');
  await clock.advance(everyMs);
  for (let turns = 0; (await counted('setpoint_mirror_checks_total')) === before; turns += 1) {
    expect(turns, 'turns until the check ends').toBeLessThan(1000);
    await settle(1);
  }
}

async function counted(name: string): Promise<number> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.find((metric) => metric.name === name)?.values[0]?.value ?? Number.NaN;
}

function corrections(): Promise<number> {
  return counted('setpoint_mirror_corrections_total');
}

function errors(): Line[] {
  return lines.filter(({ level }) => level >= 50);
}

function changesOf(mirror: Mirror): { objects: ObjectChange[]; others: KeyChange[] } {
  const changes = { objects: [] as ObjectChange[], others: [] as KeyChange[] };
  mirror.subscribe((change) => changes.objects.push(change));
  mirror.subscribeKeys((change) => changes.others.push(change));
  return changes;
}

describe('a mirror whose watch lost changes', () => {
  it('has them after five minutes, notifies its listeners, logs the keys and counts them', async () => {
    const [changed, deleted, seen] = [await create('changed'), await create('deleted'), await create('seen')];
    await put(keys.leader('a'), 'old');
    await put(keys.replica('gone'), 'here');
    const mirror = await started();
    const changes = changesOf(mirror);
    store.isLost = () => true;
    const after = await repo.change('project', changed.meta.id, (draft) => (draft.description = 'lost'));
    await repo.observe(seen, projectObserved('active'), []);
    const created = await create('created');
    await remove(deleted);
    await put(keys.leader('a'), 'new');
    await store.txn({ if: [], then: [{ delete: keys.replica('gone') }] });
    await clock.advance(0);
    store.isLost = () => false;
    expect(mirror.applied).toBe(await store.revision());
    expect(changes).toEqual({ objects: [], others: [] });

    await checked();
    await expectMirrored(store, mirror);
    expect(new Map(changes.objects.map((it) => [it.id, [it.part, !!it.before, !!it.after, it.initial]]))).toEqual(
      new Map([
        [changed.meta.id, ['desired', true, true, false]],
        [seen.meta.id, ['observed', true, true, false]],
        [created.meta.id, ['desired', false, true, false]],
        [deleted.meta.id, ['desired', true, false, false]],
      ]),
    );
    expect(mirror.tenant('acme').get('project', changed.meta.id)).toEqual(after);
    expect(changes.others.filter(({ key }) => !key.includes('/u/'))).toMatchObject([
      { key: keys.leader('a'), before: 'old', after: 'new', initial: false },
      { key: keys.replica('gone'), before: 'here', initial: false },
    ]);
    const [line] = errors();
    expect(errors()).toHaveLength(1);
    expect(line?.msg).toMatch(/^mirror differed from the store/);
    expect(line?.keys).toContain(keys.desired('acme', 'project', created.meta.id));
    expect(line?.keys).toContain(keys.replica('gone'));
    expect(line?.count).toBe(line?.keys?.length);
    expect(await corrections()).toBe(line?.count);

    await checked();
    expect(errors()).toHaveLength(1);
    expect(await corrections()).toBe(line?.count);
  });

  it('names at most twenty keys', async () => {
    const mirror = await started();
    store.isLost = () => true;
    for (let n = 0; n < 30; n++) await put(keys.replica(`r${n}`), 'here');
    await clock.advance(0);
    await checked();
    await expectMirrored(store, mirror);
    expect(errors()).toMatchObject([{ count: 30 }]);
    expect(errors()[0]?.keys).toHaveLength(20);
  });

  it('counts a record that was lost in what everything takes', async () => {
    const mirror = await started();
    const key = keys.population('acme', 'environment', randomId());
    store.isLost = (change) => change.key === key;
    await put(key, 'x');
    await clock.advance(0);
    const before = mirror.usage.total.bytes;
    await checked();
    expect(mirror.usage.total.bytes).toBeGreaterThan(before);
    expect(await corrections()).toBe(1);
  });
});

describe('a mirror that is as the store', () => {
  it('is left alone, and nothing is written', async () => {
    const it = await create('a');
    await put(keys.bytes('acme', 'project', it.meta.id), 'an icon');
    await put(keys.desired('acme', 'kind-of-the-future', randomId()), '{}');
    await put('/setpoint/1/t/acme/u/project/%/x', 'a key that cannot be understood');
    await put(keys.auditPending('acme', '1'), '{}');
    const mirror = await started();
    const changes = changesOf(mirror);
    const before = await store.revision();
    for (let n = 0; n < 3; n++) await checked();
    expect(await store.revision()).toBe(before);
    expect(changes).toEqual({ objects: [], others: [] });
    expect(await corrections()).toBe(0);
    expect(errors()).toEqual([]);
  });

  it('is compared within five minutes, and not by all replicas at the same moment', async () => {
    const waited: number[] = [];
    for (const random of [0, 0.5, 1]) {
      registry = new Registry();
      clock = new FakeClock();
      await started({ random: () => random });
      const { length } = store.lists;
      let ms = 0;
      for (; store.lists.length === length; ms += 1000) await clock.advance(1000);
      waited.push(ms);
    }
    expect(waited.toSorted((a, b) => a - b)).toEqual(waited);
    expect(new Set(waited).size).toBe(3);
    expect(Math.max(...waited)).toBeLessThan(everyMs);
    expect(Math.min(...waited)).toBeGreaterThan(everyMs / 2);
  });

  it('is compared by small pages of one revision', async () => {
    for (let page = 0; page < 30; page++) {
      const unit = repo.begin();
      for (let n = 0; n < 10; n++) unit.create('project', randomId(), desiredState('project'));
      await unit.commit();
    }
    await started();
    store.lists.length = 0;
    await checked();
    expect(store.lists.length).toBeGreaterThan(3);
    for (const { limit } of store.lists) expect(limit).toBeLessThanOrEqual(100);
    expect(new Set(store.lists.slice(1).map(({ at }) => at)).size).toBe(1);
    expect(await corrections()).toBe(0);
  });

  it('may hold a record that it cannot read', async () => {
    const it = await create('a');
    const mirror = await started();
    await put(keys.desired('acme', 'project', it.meta.id), '{"v":1}');
    await put(keys.observed('acme', 'project', it.meta.id), 'nonsense');
    await put(keys.agent('acme', 's1'), '{"replica":1}');
    await clock.advance(0);
    expect(mirror.applied).toBe(await store.revision());
    const before = errors().length;
    await checked();
    expect(errors()).toHaveLength(before);
    expect(await corrections()).toBe(0);
  });
});

describe('a change while a mirror is compared', () => {
  it('is no difference, wherever the list is', async () => {
    const made: Resource<'project'>[] = [];
    for (let page = 0; page < 15; page++) {
      const unit = repo.begin();
      for (let n = 0; n < 10; n++) made.push(unit.create('project', randomId(), desiredState('project')));
      await unit.commit();
    }
    const mirror = await started();
    const changes = changesOf(mirror);
    const elsewhere = openRepository(backend, 'acme', systemClock);
    store.beforeList = async () => {
      const [changed, deleted] = made.splice(0, 2);
      await elsewhere.change('project', changed!.meta.id, (draft) => (draft.description = 'b'));
      const unit = elsewhere.begin();
      unit.requestDelete(deleted!);
      unit.release(deleted!, 'project');
      unit.create('project', randomId(), desiredState('project'));
      await unit.commit();
      await settle();
    };
    await checked();
    const pages = store.lists.length - 1;
    expect(pages).toBeGreaterThan(4);
    expect(changes.objects.length).toBe(3 * pages);
    expect(await corrections()).toBe(0);
    store.beforeList = undefined;
    await expectMirrored(store, mirror);
  });

  it('is no difference while the watch has yet to deliver it', async () => {
    const it = await create('a');
    const mirror = await started();
    const changes = changesOf(mirror);
    const { promise, resolve } = Promise.withResolvers<void>();
    store.silence = promise;
    await repo.change('project', it.meta.id, (draft) => (draft.description = 'b'));
    const other = await create('b');
    await clock.advance(everyMs);
    expect(store.lists.length).toBe(2);
    expect(changes.objects).toEqual([]);
    resolve();
    await settle();
    await clock.advance(0);
    expect(changes.objects.map(({ id }) => id)).toEqual([it.meta.id, other.meta.id]);
    await checked();
    expect(await corrections()).toBe(0);
    expect(errors()).toEqual([]);
  });

  it('of a key that differed is taken from the watch', async () => {
    const mirror = await started();
    const changes = changesOf(mirror);
    const key = keys.leader('a');
    store.isLost = () => true;
    await put(key, 'lost');
    await clock.advance(0);
    store.isLost = () => false;
    for (let n = 0; n < 150; n++) await put(keys.replica(`r${n}`), 'here');
    changes.others.length = 0;
    store.beforeList = async ({ at }) => {
      if (at === undefined) return;
      await backend.txn({ if: [], then: [{ delete: key }] });
      await settle();
    };
    await checked();
    expect(mirror.key(key)).toBeUndefined();
    expect(changes.others.filter((change) => change.key === key && change.after !== undefined)).toEqual([]);
    expect(await corrections()).toBe(0);
  });
});

describe('a check of a mirror', () => {
  it('has everything listed anew where the watch delivers nothing any more', async () => {
    const mirror = await started();
    store.silence = new Promise(() => undefined);
    const it = await create('a');
    await clock.advance(everyMs);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toBeUndefined();
    store.silence = undefined;
    await clock.advance(2 * minute);
    expect(mirror.tenant('acme').get('project', it.meta.id)).toEqual(it);
    expect(errors().map(({ msg }) => msg)).toEqual(['mirror failed']);
    const other = await create('b');
    await clock.advance(0);
    expect(mirror.tenant('acme').get('project', other.meta.id)).toEqual(other);
  });

  it('has everything listed anew where the store was replaced and the watch did not end', async () => {
    const it = await create('lost');
    const mirror = await started();
    const other = cleanup.use(await openSqlite({ path: ':memory:' }));
    store.cut = () => undefined;
    store.replace(other, unavailable('unheard'));
    const found = await create('found');
    await clock.advance(everyMs);
    await settle();
    expect(mirror.tenant('acme').get('project', it.meta.id)).toBeUndefined();
    expect(mirror.tenant('acme').get('project', found.meta.id)).toEqual(found);
  });

  it('that cannot read is tried again soon', async () => {
    const mirror = await started();
    const key = keys.replica('r1');
    store.isLost = () => true;
    await put(key, 'here');
    await clock.advance(0);
    store.isLost = () => false;
    for (const failure of [unavailable('down'), compacted(mirror.applied)]) {
      store.beforeList = () => Promise.reject(failure);
      await clock.advance(everyMs);
      expect(mirror.key(key)).toBeUndefined();
    }
    store.beforeList = undefined;
    await clock.advance(minute);
    await settle();
    expect(mirror.key(key)?.value).toBe('here');
  });

  it('gives way to a list of the mirror itself', async () => {
    for (let n = 0; n < 150; n++) await put(keys.replica(`r${n}`), 'here');
    const mirror = await started();
    store.isLost = () => true;
    await put(keys.leader('a'), 'lost');
    await clock.advance(0);
    store.isLost = () => false;
    let isCut = false;
    store.beforeList = async ({ at }) => {
      if (at === undefined || isCut) return;
      isCut = true;
      store.cut(compacted(mirror.applied));
      await settle();
      await clock.advance(1000);
    };
    const checks = await counted('setpoint_mirror_checks_total');
    await clock.advance(everyMs);
    await settle(50);
    expect(isCut).toBe(true);
    expect(mirror.key(keys.leader('a'))?.value).toBe('lost');
    expect(await counted('setpoint_mirror_checks_total')).toBe(checks);
    expect(await corrections()).toBe(0);
  });

  it('ends when the mirror is closed', async () => {
    for (let n = 0; n < 150; n++) await put(keys.replica(`r${n}`), 'here');
    const mirror = await started();
    const { promise, resolve } = Promise.withResolvers<void>();
    store.beforeList = () => promise;
    await clock.advance(everyMs);
    const { length } = store.lists;
    const closed = mirror.close();
    resolve();
    await closed;
    await clock.advance(2 * everyMs);
    expect(store.lists).toHaveLength(length);
    expect(clock.pending).toBe(0);
  });
});
