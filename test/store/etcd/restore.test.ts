import { expect, test } from 'vitest';
import { isRewound } from '../../../store/errors.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import type { Store } from '../../../store/store.ts';
import { after, changesUpTo, failureOf, fill, firstOf, put } from '../../contract/store-steps.ts';
import { startEtcd } from '../../harness/etcd.ts';

const everything = { prefix: '/r/' };

/** What a mirror does after an interruption: tries again while the store does not answer. */
async function rewatch(store: Store, from: Parameters<Store['watch']>[1]): Promise<unknown> {
  for (;;) {
    const error = await failureOf(firstOf(store, everything, from));
    if (isRewound(error)) return error;
    if (!String(error).includes('did not answer')) throw error;
  }
}

test('a restored older snapshot is a rewind for who was further, and another incarnation for everyone', async () => {
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  const before = store.incarnation;
  await fill(store, '/r/', 10);
  const snapshot = await etcd.snapshot();
  const last = await fill(store, '/r/', 10);
  await etcd.restore(snapshot);
  expect(await rewatch(store, after(last))).toMatchObject({ failure: { incarnation: store.incarnation } });
  expect(store.incarnation).not.toBe(before);
  await using other = await openEtcd({ hosts: [etcd.host] });
  expect(other.incarnation).toBe(store.incarnation);
  const at = await put(store, '/r/a', '1');
  expect(await changesUpTo(store, everything, at, at)).toHaveLength(1);
});

test('a restored snapshot that has grown further than before is a rewind all the same', async () => {
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  await fill(store, '/r/', 5);
  const snapshot = await etcd.snapshot();
  // Another term of the old history, by which it is told from the new one.
  await etcd.restart();
  for (let isBack = false; !isBack;) isBack = await store.revision().then(Boolean, () => false);
  const last = await fill(store, '/r/', 5);
  const before = store.incarnation;
  await etcd.restore(snapshot);
  await using other = await openEtcd({ hosts: [etcd.host] });
  await fill(other, '/r/', 100);
  await rewatch(store, after(last));
  expect(store.incarnation).not.toBe(before);
});

test('a snapshot restored as a new cluster is another incarnation from its first moment on', async () => {
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  const before = store.incarnation;
  const last = await fill(store, '/r/', 5);
  await etcd.restore(await etcd.snapshot(), 'another');
  await using other = await openEtcd({ hosts: [etcd.host] });
  expect(other.incarnation).not.toBe(before);
  await fill(other, '/r/', 50);
  await rewatch(store, after(last));
  expect(store.incarnation).toBe(other.incarnation);
});

test('all processes that notice a rewind agree on the new incarnation', async () => {
  await using etcd = await startEtcd();
  const open = () => openEtcd({ hosts: [etcd.host] });
  await using one = await open();
  await using two = await open();
  await fill(one, '/r/', 5);
  const snapshot = await etcd.snapshot();
  const last = await fill(one, '/r/', 5);
  await fill(two, '/s/', 1);
  await etcd.restore(snapshot);
  await Promise.all([rewatch(one, after(last)), rewatch(two, after(last))]);
  expect(one.incarnation).toBe(two.incarnation);
});

test('a restart alone is no rewind', async () => {
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  const before = store.incarnation;
  const at = await fill(store, '/r/', 5);
  await etcd.restart();
  for (let isBack = false; !isBack;) isBack = await store.revision().then(Boolean, () => false);
  expect(await changesUpTo(store, everything, at, at)).toHaveLength(1);
  expect(store.incarnation).toBe(before);
});
