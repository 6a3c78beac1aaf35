import { expect } from 'vitest';
import { isRewound, isUnavailable } from '../../store/errors.ts';
import { limits } from '../../store/store.ts';
import type { Batch, Change } from '../../store/store.ts';
import type { Case } from './store-backends.ts';
import { after, batchesUpTo, changesUpTo, failureOf, fill, firstOf, put, write } from './store-steps.ts';

/** Order, completeness, whole revisions, ends. */
export function watchCases(it: Case): void {
  it('a watch from the next revision sees the next change', async ({ store, range, key }) => {
    const from = after(await store.revision());
    const first = firstOf(store, range, from);
    const at = await put(store, key('a'), '1');
    expect((await first).events).toEqual([{ key: key('a'), revision: at, value: '1' }]);
  });

  it('a watch delivers history first and then goes on live, each change once', async ({ store, range, key }) => {
    const from = after(await store.revision());
    await fill(store, key('past-'), 30);
    const seen: Change[] = [];
    const stop = new AbortController();
    for await (const batch of store.watch(range, from, stop.signal)) {
      seen.push(...batch.events);
      if (seen.length >= 30 && seen.length < 60) await put(store, key(`live-${seen.length}`), 'v');
      if (seen.length === 60) break;
    }
    expect(seen.map((change) => change.revision)).toEqual(Array.from({ length: 60 }, (_, n) => from + n));
    expect(new Set(seen.map((change) => change.key)).size).toBe(60);
  });

  it('changes carry the new value, the previous one, or neither', async ({ store, range, key }) => {
    const r1 = await put(store, key('a'), '1');
    const r2 = await put(store, key('a'), '2');
    const r3 = await write(store, { delete: key('a') });
    const r4 = await put(store, key('a'), '');
    const r5 = await write(store, { delete: key('a') });
    expect(await changesUpTo(store, range, r1, r5)).toEqual([
      { key: key('a'), revision: r1, value: '1' },
      { key: key('a'), revision: r2, value: '2', previous: '1' },
      { key: key('a'), revision: r3, previous: '2' },
      { key: key('a'), revision: r4, value: '' },
      { key: key('a'), revision: r5, previous: '' },
    ]);
  });

  it('a watch may start in the middle of history', async ({ store, range, key }) => {
    await put(store, key('a'), '1');
    const from = await put(store, key('a'), '2');
    const to = await put(store, key('a'), '3');
    const values = (await changesUpTo(store, range, from, to)).map((change) => change.value);
    expect(values).toEqual(['2', '3']);
  });

  it('a revision is never split, and a batch ends with the revision that it names', async ({ store, range, key }) => {
    const from = after(await store.revision());
    let to = from;
    for (let n = 0; n < 40; n++)
      to = await write(store, ...Array.from({ length: 64 }, (_, k) => ({ put: key(`${k}`), value: `${n}` })));
    const batches = await batchesUpTo(store, range, from, to);
    const owners = new Map<number, Batch>();
    for (const batch of batches)
      for (const change of batch.events) {
        expect(owners.get(change.revision) ?? batch).toBe(batch);
        owners.set(change.revision, batch);
      }
    expect(batches.flatMap((batch) => batch.events)).toHaveLength(40 * 64);
    for (const batch of batches) expect(batch.events.at(-1)?.revision ?? batch.revision).toBe(batch.revision);
  });

  it('revisions of the largest size arrive whole', async ({ store, range, key }) => {
    const from = after(await store.revision());
    const value = 'x'.repeat(Math.floor(limits.txnBytes / 64) - 100);
    let to = from;
    for (let n = 0; n < 8; n++)
      to = await write(store, ...Array.from({ length: 64 }, (_, k) => ({ put: key(`${n}-${k}`), value })));
    for (const batch of await batchesUpTo(store, range, from, to)) {
      const sizes = new Map<number, number>();
      for (const change of batch.events) sizes.set(change.revision, (sizes.get(change.revision) ?? 0) + 1);
      expect([...sizes.values()].every((size) => size === 64)).toBe(true);
    }
  });

  it('a watch sees its range alone', async ({ store, key }) => {
    const from = after(await store.revision());
    await write(store, { put: key('a/1'), value: '' }, { put: key('b/1'), value: '' }, { put: key('a'), value: '' });
    await put(store, key('b/2'), '');
    const to = await write(store, { put: key('a/2'), value: '' }, { delete: key('b/1') });
    const changes = await changesUpTo(store, { prefix: key('a/') }, from, to);
    expect(changes.map((change) => change.key)).toEqual([key('a/1'), key('a/2')]);
  });

  it('every watch sees the same order, whoever writes', async ({ store, range, key }) => {
    const from = after(await store.revision());
    const stop = new AbortController();
    const follow = async (): Promise<Change[]> => {
      const seen: Change[] = [];
      for await (const batch of store.watch(range, from, stop.signal)) {
        seen.push(...batch.events);
        if (seen.length === 400) break;
      }
      return seen;
    };
    const live = [follow(), follow()];
    await Promise.all(Array.from({ length: 400 }, (_, n) => put(store, key(`${n % 11}`), `${n}`)));
    const late = await follow();
    for (const seen of await Promise.all(live)) expect(seen).toEqual(late);
    expect(late.map((change) => change.revision)).toEqual(Array.from({ length: 400 }, (_, n) => from + n));
  });

  it('a watch that is cut after every batch and at its start misses and repeats nothing', async ({
    store,
    range,
    key,
  }) => {
    const from = after(await store.revision());
    const to = await fill(store, key(''), 4002);
    const whole = await changesUpTo(store, range, from, to);
    expect(whole).toHaveLength(4002);
    const seen: Change[] = [];
    for (let next = from, round = 0; next <= to; round++) {
      const cut = new AbortController();
      if (round % 2 === 0) queueMicrotask(() => cut.abort());
      for await (const batch of store.watch(range, next, cut.signal)) {
        seen.push(...batch.events);
        next = after(batch.revision);
        break;
      }
    }
    expect(seen).toEqual(whole);
  });

  it('ten megabytes of history are delivered', async ({ store, range, key }) => {
    const from = after(await store.revision());
    const to = await fill(store, key(''), 100, 'x'.repeat(100_000));
    const changes = await changesUpTo(store, range, from, to);
    expect(changes).toHaveLength(100);
    expect(changes.every((change) => change.value?.length === 100_000)).toBe(true);
  });

  it('a slow reader holds up no writer and loses nothing', async ({ store, range, key }) => {
    const from = after(await store.revision());
    await put(store, key('first'), '');
    const watch = store.watch(range, from, new AbortController().signal)[Symbol.asyncIterator]();
    const seen = [...(await watch.next()).value.events];
    await fill(store, key(''), 3000, 'x'.repeat(2000));
    while (seen.length < 3001) seen.push(...(await watch.next()).value.events);
    await watch.return?.();
    expect(seen.map((change) => change.revision)).toEqual(Array.from({ length: 3001 }, (_, n) => from + n));
  });

  it('two watches of one store do not wait for each other', async ({ store, range, key }) => {
    const from = after(await store.revision());
    const to = await fill(store, key(''), 200, 'x'.repeat(50_000));
    const idle = store.watch(range, from, new AbortController().signal)[Symbol.asyncIterator]();
    await idle.next();
    expect(await changesUpTo(store, range, from, to)).toHaveLength(200);
    await idle.return?.();
  });

  it('a watch ends without a word when its signal aborts while it waits', async ({ store, range }) => {
    const stop = new AbortController();
    const watch = store.watch(range, after(await store.revision()), stop.signal)[Symbol.asyncIterator]();
    const pending = watch.next();
    stop.abort();
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(await watch.next()).toEqual({ done: true, value: undefined });
  });

  it('a watch whose signal aborted before it began delivers nothing', async ({ store, range, key }) => {
    const from = await put(store, key('a'), '1');
    for await (const batch of store.watch(range, from, AbortSignal.abort())) expect.unreachable(`${batch.revision}`);
  });

  it('a watch beyond the next revision is refused at once', async ({ store, range }) => {
    const now = await store.revision();
    const error = await failureOf(firstOf(store, range, after(now, 2)));
    expect(isRewound(error)).toBe(true);
    expect(error).toMatchObject({ failure: { incarnation: store.incarnation } });
  });

  it('the end of the store ends its watches as unavailable', async ({ store, range }) => {
    const from = after(await store.revision());
    const pending = failureOf(firstOf(store, range, from));
    await store.close();
    expect(isUnavailable(await pending)).toBe(true);
    expect(isUnavailable(await failureOf(firstOf(store, range, from)))).toBe(true);
  });

  it('a closed store refuses everything as unavailable and may be closed again', async ({ store, range, key }) => {
    const now = await store.revision();
    await store.close();
    await store.close();
    const calls = [
      store.get(key('a')),
      store.list(range),
      store.txn({ if: [], then: [] }),
      store.lease(1000),
      store.revision(),
      store.compact(now),
    ];
    for (const call of calls) expect(isUnavailable(await failureOf(call))).toBe(true);
  });
}
