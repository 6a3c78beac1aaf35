import { expect } from 'vitest';
import { isCompacted, isRewound } from '../../store/errors.ts';
import type { Change } from '../../store/store.ts';
import type { Case } from './store-backends.ts';
import { after, changesUpTo, failureOf, fill, firstOf, put, write } from './store-steps.ts';

/** Compaction forgets the past and nothing else. */
export function historyCases(it: Case): void {
  it('compaction keeps the present', async ({ store, range, key }) => {
    await put(store, key('a'), '1');
    await write(store, { put: key('a'), value: '2' }, { put: key('b'), value: '1' }, { put: key('c'), value: '1' });
    const at = await write(store, { delete: key('c') });
    const before = await store.list(range);
    await store.compact(at);
    expect(await store.list(range)).toEqual(before);
    expect(await store.get(key('a'))).toEqual(before.entries[0]);
  });

  it('the past can be listed from the compaction point on, and not below', async ({ store, range, key }) => {
    const one = await put(store, key('a'), '1');
    const two = await put(store, key('a'), '2');
    const three = await write(store, { delete: key('a') });
    await store.compact(two);
    expect((await store.list(range, { at: two })).entries).toMatchObject([{ value: '2', createRevision: one }]);
    expect((await store.list(range, { at: three })).entries).toEqual([]);
    const error = await failureOf(store.list(range, { at: one }));
    expect(isCompacted(error)).toBe(true);
    expect(error).toMatchObject({ failure: { compactedTo: two } });
  });

  it('a watch goes on above the compaction point and is refused up to it', async ({ store, range, key }) => {
    await put(store, key('a'), '1');
    const deleted = await write(store, { delete: key('a') });
    const last = await put(store, key('b'), '1');
    await store.compact(deleted);
    for (const from of [after(deleted, -1), deleted]) {
      const error = await failureOf(firstOf(store, range, from));
      expect(isCompacted(error)).toBe(true);
      expect(error).toMatchObject({ failure: { compactedTo: deleted } });
    }
    expect(await changesUpTo(store, range, last, last)).toEqual([{ key: key('b'), revision: last, value: '1' }]);
  });

  it('a change above the compaction point still knows the value before it', async ({ store, range, key }) => {
    await put(store, key('a'), '1');
    await put(store, key('gone'), '1');
    const point = await write(store, { delete: key('gone') });
    const next = await write(store, { put: key('a'), value: '2' }, { put: key('gone'), value: '2' });
    await store.compact(point);
    expect(await changesUpTo(store, range, next, next)).toEqual([
      { key: key('a'), revision: next, value: '2', previous: '1' },
      { key: key('gone'), revision: next, value: '2' },
    ]);
  });

  it('a watch that waits at the end of history outlives a compaction', async ({ store, range, key }) => {
    const at = await put(store, key('a'), '1');
    const pending = firstOf(store, range, after(at));
    await store.compact(at);
    const next = await put(store, key('a'), '2');
    expect((await pending).events).toEqual([{ key: key('a'), revision: next, value: '2', previous: '1' }]);
  });

  it('compacting again, or less far, changes nothing', async ({ store, range, key }) => {
    const one = await put(store, key('a'), '1');
    const two = await put(store, key('a'), '2');
    await store.compact(two);
    await store.compact(two);
    await store.compact(one);
    expect((await store.list(range, { at: two })).entries).toHaveLength(1);
  });

  it('the future cannot be compacted', async ({ store }) => {
    expect(isRewound(await failureOf(store.compact(after(await store.revision()))))).toBe(true);
  });

  it('thousands of revisions are compacted while others write', async ({ store, range, key }) => {
    const from = await fill(store, key('x-'), 3500);
    for (let n = 0; n < 7; n++)
      await Promise.all(Array.from({ length: 500 }, (_, k) => put(store, key(`y-${k}`), `${n}`)));
    const at = await store.revision();
    const compaction = store.compact(at);
    const during = await Promise.all(Array.from({ length: 200 }, (_, n) => put(store, key(`z-${n}`), '')));
    await compaction;
    expect(during.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, n) => at + 1 + n));
    expect(isCompacted(await failureOf(store.list(range, { at: from })))).toBe(true);
    const last = Math.max(...during);
    expect(await changesUpTo(store, range, after(at), after(at, last - at))).toHaveLength(200);
    expect((await store.list({ prefix: key('y-') })).entries.every((entry) => entry.value === '6')).toBe(true);
  });

  it('a slow reader whose history is compacted gets that error, and never a gap', async ({ store, range, key }) => {
    const from = after(await store.revision());
    await put(store, key('first'), '');
    const watch = store.watch(range, from, new AbortController().signal)[Symbol.asyncIterator]();
    const seen: Change[] = [...(await watch.next()).value.events];
    const to = await fill(store, key(''), 3000, 'x'.repeat(10_000));
    await store.compact(to);
    await put(store, key('last'), '');
    let error: unknown;
    try {
      while (seen.length < 3002) seen.push(...(await watch.next()).value.events);
    } catch (thrown) {
      error = thrown;
    }
    await watch.return?.();
    expect(isCompacted(error) || seen.length === 3002).toBe(true);
    expect(seen.map((change) => change.revision)).toEqual(Array.from(seen, (_, n) => from + n));
    expect(await store.get(key('last'))).toBeDefined();
  });
}
