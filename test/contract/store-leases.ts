import { expect } from 'vitest';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { until } from '../harness/until.ts';
import type { Case } from './store-backends.ts';
import { after, changesUpTo, failureOf, put, write } from './store-steps.ts';

/** Leased keys live as long as their lease, which renews itself. */
export function leaseCases(it: Case): void {
  it('a lease renews itself for longer than it lives', async ({ store, key, pass }) => {
    const lease = await store.lease(1000);
    await write(store, { put: key('a'), value: '1', lease: lease.id });
    await pass(2200);
    expect(lease.lost.aborted).toBe(false);
    expect(await store.get(key('a'))).toBeDefined();
  });

  it('a revocation deletes all keys of the lease in one revision, and watches see it', async ({
    store,
    range,
    key,
  }) => {
    const lease = await store.lease(60_000);
    await put(store, key('stays'), '1');
    const at = await write(
      store,
      { put: key('b'), value: '1', lease: lease.id },
      { put: key('a'), value: '2', lease: lease.id },
    );
    await lease.revoke();
    expect((await store.list(range)).entries.map((entry) => entry.key)).toEqual([key('stays')]);
    expect(await store.revision()).toBe(after(at));
    expect(await changesUpTo(store, range, after(at), after(at))).toEqual([
      { key: key('a'), revision: after(at), previous: '2' },
      { key: key('b'), revision: after(at), previous: '1' },
    ]);
  });

  it('a revocation aborts `lost`, and a second one is nothing', async ({ store }) => {
    const lease = await store.lease(60_000);
    const now = await store.revision();
    expect(lease.lost.aborted).toBe(false);
    await lease.revoke();
    expect(lease.lost.aborted).toBe(true);
    expect(isUnavailable(lease.lost.reason)).toBe(true);
    await lease.revoke();
    expect(await store.revision()).toBe(now);
  });

  it('nothing can be written under a lease that is gone', async ({ store, key }) => {
    const lease = await store.lease(60_000);
    await lease.revoke();
    const now = await store.revision();
    const attempt = write(store, { put: key('a'), value: '1' }, { put: key('b'), value: '1', lease: lease.id });
    expect(isConflict(await failureOf(attempt))).toBe(true);
    expect(await store.get(key('a'))).toBeUndefined();
    expect(await store.revision()).toBe(now);
  });

  it('a failed guard is an answer even if the lease is gone', async ({ store, key }) => {
    const lease = await store.lease(60_000);
    await lease.revoke();
    const then = [{ put: key('a'), value: '1', lease: lease.id }];
    expect(await store.txn({ if: [{ key: key('a'), is: 'present' }], then })).toMatchObject({ committed: false });
  });

  it('writing a key again without the lease frees it, with another lease moves it', async ({ store, key }) => {
    const [one, two] = [await store.lease(60_000), await store.lease(60_000)];
    await write(store, { put: key('a'), value: '1', lease: one.id }, { put: key('b'), value: '1', lease: one.id });
    await write(store, { put: key('a'), value: '2' }, { put: key('b'), value: '2', lease: two.id });
    await one.revoke();
    expect(await store.get(key('a'))).toBeDefined();
    expect(await store.get(key('b'))).toBeDefined();
    await two.revoke();
    expect(await store.get(key('a'))).toBeDefined();
    expect(await store.get(key('b'))).toBeUndefined();
  });

  it("a key that was deleted and written anew is no longer the lease's", async ({ store, key }) => {
    const lease = await store.lease(60_000);
    await write(store, { put: key('a'), value: '1', lease: lease.id });
    await write(store, { delete: key('a') });
    await put(store, key('a'), '2');
    await lease.revoke();
    expect((await store.get(key('a')))?.value).toBe('2');
  });

  it('a lease has an id of its own and lives for a second at least', async ({ store }) => {
    const [one, two] = await Promise.all([store.lease(1000), store.lease(1000)]);
    expect(one.id).not.toBe(two.id);
    for (const ttlMs of [999, Number.NaN, 2 ** 31])
      expect(await failureOf(store.lease(ttlMs))).toBeInstanceOf(RangeError);
    await Promise.all([one.revoke(), two.revoke()]);
  });

  it('the end of the store loses its leases at once', async ({ store }) => {
    const lease = await store.lease(60_000);
    await store.close();
    expect(lease.lost.aborted).toBe(true);
  });
}

/** What becomes of leases while the store does not answer. */
export function failingLeaseCases(it: Case): void {
  it('the keys of a lease whose revocation failed go all the same', async ({ store, key, interrupt, pass }) => {
    const lease = await store.lease(2000);
    const other = await store.lease(60_000);
    await write(
      store,
      { put: key('a'), value: '', lease: lease.id },
      { put: key('b'), value: '', lease: lease.id },
      { put: key('stays'), value: '', lease: other.id },
    );
    const restore = await interrupt();
    const failed = failureOf(lease.revoke());
    expect(isUnavailable(await failed)).toBe(true);
    expect(lease.lost.aborted).toBe(true);
    restore();
    await until('the keys are gone', async () => {
      await pass(100);
      return (await store.get(key('a'))) === undefined;
    });
    expect(await store.get(key('b'))).toBeUndefined();
    expect(await store.get(key('stays'))).toBeDefined();
  });

  it('a revocation that failed can be repeated, and has then deleted the keys', async ({ store, key, interrupt }) => {
    const lease = await store.lease(60_000);
    await write(store, { put: key('a'), value: '', lease: lease.id });
    const restore = await interrupt();
    await failureOf(lease.revoke());
    restore();
    await until('the revocation succeeds', () => lease.revoke().then(() => true));
    expect(await store.get(key('a'))).toBeUndefined();
  });
}
