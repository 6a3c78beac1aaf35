import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WireReport } from '../../../agent-protocol/assignment.ts';
import type { Report } from '../../../agent-protocol/control-session.ts';
import { RemovalHold } from '../../../controllers/gateway/removal-hold.ts';
import { unavailable } from '../../../store/errors.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import type { HeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Guard, Store } from '../../../store/store.ts';
import { running } from '../../harness/fake-backend.ts';
import { InterruptibleStore } from '../../harness/interruptible-store.ts';

const place = { tenant: 'acme', server: 'server-1' };
const live = keys.agent(place.tenant, place.server);
const key = keys.removals(place.tenant, place.server);
let store: Store & AsyncDisposable;
let fence: Guard;

beforeEach(async () => {
  store = await openSqlite({ path: ':memory:' });
  fence = await takeKey();
});

afterEach(() => store[Symbol.asyncDispose]());

async function takeKey(): Promise<Guard> {
  const result = await store.txn({ if: [], then: [{ put: live, value: '{}' }] });
  return { key: live, is: 'at', revision: result.revision };
}

function holdOf({ held, on = store }: { held?: HeldRemovals; on?: Pick<Store, 'txn'> } = {}): RemovalHold {
  return new RemovalHold({
    ...place,
    store: on,
    view: { get: () => undefined, heldRemovals: () => held, unreadable: () => [] },
    era: () => 'present',
  });
}

function report(ids: readonly string[], rest: Partial<Report> = {}): Report {
  const items: WireReport[] = ids.map((id) => running({ id, generation: 1 }));
  return { type: 'report', seq: 1, full: true, items, ...rest };
}

describe('what an agent is to keep', () => {
  it('is counted over all parts of its complete report, also over those that came while the session had no key', async () => {
    const hold = holdOf();
    expect(hold.begin(false)).toBe(true);
    expect(await hold.take(report(['a'], { more: true }), undefined)).toBeUndefined();
    expect(await hold.take(report(['b'], { full: false }), fence)).toBeUndefined();
    expect(await hold.take(report(['c']), fence)).toEqual({ keep: ['a', 'c'], isNew: true });
    expect((await store.get(key))?.value).toBe('{"held":2,"confirmed":false}');
  });

  it('leaves out what the agent says is gone', async () => {
    const hold = holdOf();
    hold.begin(false);
    const items = [{ ...running({ id: 'a', generation: 1 }), gone: true }];
    expect(await hold.take(report([], { items }), fence)).toEqual({ keep: [], isNew: false });
  });

  it.each([
    ['its live key was taken meanwhile', async () => void (await takeKey())],
    ['another session stored one', async () => void (await store.txn({ if: [], then: [{ put: key, value: '{}' }] }))],
  ])('is not sent if it could not be stored, since %s', async (_, interfere) => {
    const hold = holdOf();
    hold.begin(false);
    await interfere();
    expect(await hold.take(report(['a', 'b']), fence)).toBe('unstored');
  });

  it('is not sent while the session has no live key, or the store is away', async () => {
    const lost = holdOf();
    lost.begin(false);
    expect(await lost.take(report(['a']), undefined)).toBe('unstored');
    const away = new InterruptibleStore(store);
    away.failure = unavailable('The store is away');
    const hold = holdOf({ on: away });
    hold.begin(false);
    expect(await hold.take(report(['a']), fence)).toBe('unstored');
  });

  it('is what is held already, until that was confirmed', async () => {
    const held = holdOf({ held: { held: 2, confirmed: false } });
    expect(held.begin(true)).toBe(true);
    expect(await held.take(report(['a']), fence)).toEqual({ keep: ['a'], isNew: false });
    await store.txn({ if: [], then: [putHeldRemovals(place.tenant, place.server, { held: 2, confirmed: true })] });
    const confirmed = holdOf({ held: { held: 2, confirmed: true, era: 'present' } });
    confirmed.begin(false);
    expect(await confirmed.take(report(['a']), fence)).toEqual({ keep: [], isNew: false });
    expect(await store.get(key)).toBeUndefined();
  });

  it.each([['before'], [undefined]])('is held anew where it was confirmed in an earlier era: %s', async (era) => {
    const record = { held: 2, confirmed: true, ...(era !== undefined && { era }) };
    await store.txn({ if: [], then: [putHeldRemovals(place.tenant, place.server, record)] });
    const hold = holdOf({ held: record });
    hold.begin(false);
    expect(await hold.take(report(['a']), fence)).toEqual({ keep: ['a'], isNew: true });
    expect((await store.get(key))?.value).toBe('{"held":1,"confirmed":false}');
  });

  it('is nothing once the removal was confirmed before the report was complete', async () => {
    const hold = holdOf();
    hold.begin(false);
    expect(await hold.take(report(['a'], { more: true }), fence)).toBeUndefined();
    expect(await hold.release(fence)).toBe(true);
    expect(await hold.take(report(['b']), fence)).toBeUndefined();
    expect(await store.get(key)).toBeUndefined();
  });

  it('stays recorded, and the session learns of it, if a confirmed hold could not be forgotten', async () => {
    await store.txn({ if: [], then: [putHeldRemovals(place.tenant, place.server, { held: 1, confirmed: true })] });
    const [old] = [fence, await takeKey()];
    const hold = holdOf({ held: { held: 1, confirmed: true, era: 'present' } });
    hold.begin(true);
    expect(await hold.take(report(['a']), old)).toBe('unstored');
    expect(await hold.release(old)).toBe(false);
    expect(await store.get(key)).toBeDefined();
  });
});
