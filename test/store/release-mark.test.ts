import { expect, test } from 'vitest';
import { keys } from '../../store/keys.ts';
import { thisRelease } from '../../store/release.ts';
import { markRelease, refuseLater } from '../../store/release-mark.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Guard, Store } from '../../store/store.ts';

const fence: Guard = { key: keys.leader('controllers'), is: 'present' };

async function opened(mark?: object | string): Promise<Store & AsyncDisposable> {
  const store = await openSqlite({ path: ':memory:' });
  const value = typeof mark === 'string' ? mark : JSON.stringify(mark ?? {});
  const then = mark === undefined ? [] : [{ put: keys.meta('release'), value }];
  await store.txn({ if: [], then: [{ put: keys.leader('controllers'), value: '{}' }, ...then] });
  return store;
}

const reads = (store: Store) => store.get(keys.meta('release')).then((it) => it && JSON.parse(it.value));

test('a store without a mark, with that of this release or of an earlier one is taken', async () => {
  const { project: _, ...earlier } = thisRelease.reads;
  for (const mark of [undefined, { version: '1', reads: thisRelease.reads }, { version: '0', reads: earlier }]) {
    await using store = await opened(mark);
    await refuseLater(store);
  }
});

test.each([
  { of: 'a kind that it does not know', more: { machine: 1 }, named: 'machine' },
  { of: 'a later version of a kind', more: { project: 1000 }, named: 'project' },
])('a store on which a release led that writes $of is refused', async ({ more, named }) => {
  await using store = await opened({ version: '9.1', reads: { ...thisRelease.reads, ...more } });
  await expect(refuseLater(store)).rejects.toThrow(
    `A later release (9.1) wrote this store, and this one cannot read its records of ${named}: start that release again, or restore`,
  );
});

test('a mark in a form of a later release is refused', async () => {
  await using store = await opened('no JSON');
  await expect(refuseLater(store)).rejects.toThrow(
    'A later release wrote this store, and this one cannot read its mark',
  );
});

test('the leader marks the store once, and over the mark of an earlier release', async () => {
  await using store = await opened({ version: '0', reads: { project: 1, dropped: 2 } });
  expect(await markRelease(store, '1', fence)).toBe(true);
  expect(await reads(store)).toEqual({ version: '1', reads: { ...thisRelease.reads, dropped: 2 } });
  const at = await store.revision();
  expect(await markRelease(store, '1', fence)).toBe(true);
  expect(await store.revision()).toBe(at);
});

test('a leader whose term is over marks nothing', async () => {
  await using store = await opened();
  expect(await markRelease(store, '1', { key: keys.leader('controllers'), is: 'absent' })).toBe(false);
  expect(await reads(store)).toBeUndefined();
});
