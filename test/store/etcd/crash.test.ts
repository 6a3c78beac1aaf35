import { expect, test } from 'vitest';
import { isFull, isUnavailable, mayBeWritten } from '../../../store/errors.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import type { Change, Store } from '../../../store/store.ts';
import { after, changesUpTo, committed, failureOf, fill, put, write } from '../../contract/store-steps.ts';
import { startEtcd } from '../../harness/etcd.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';
import { longTag } from '../../layer-report.ts';

/** Creates pairs of keys until `isDone`. @returns what became of each: its revision, or nothing if that is unknown. */
async function createPairs(
  store: Store,
  name: string,
  isDone: () => boolean,
): Promise<Map<string, number | undefined>> {
  const outcomes = new Map<string, number | undefined>();
  for (let n = 0; !isDone(); n++) {
    const id = `${name}-${n}`;
    try {
      const result = await store.txn({
        if: [{ key: `/x/${id}`, is: 'absent' }],
        then: [
          { put: `/x/${id}`, value: id },
          { put: `/y/${id}`, value: id },
        ],
      });
      expect(result.committed).toBe(true);
      outcomes.set(id, result.revision);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      outcomes.set(id, undefined);
    }
  }
  return outcomes;
}

test('etcd killed in the middle of transactions has every acknowledged one once, and the others whole or not', async () => {
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  const outcomes = new Map<string, number | undefined>();
  for (let round = 0; round < 3; round++) {
    let isDone = false;
    const workers = Array.from({ length: 8 }, (_, n) => createPairs(store, `${round}-${n}`, () => isDone));
    const from = await store.revision();
    for await (const batch of store.watch({ prefix: '/x/' }, after(from), new AbortController().signal))
      if (batch.revision > from + 100) break;
    await etcd.kill();
    isDone = true;
    for (const worker of await Promise.all(workers)) for (const [id, at] of worker) outcomes.set(id, at);
    await etcd.restart();
    for (let isBack = false; !isBack;) isBack = await store.revision().then(Boolean, () => false);
  }
  expect([...outcomes.values()].filter((at) => at !== undefined).length).toBeGreaterThan(300);
  for (const [id, at] of outcomes) {
    const [x, y] = [await store.get(`/x/${id}`), await store.get(`/y/${id}`)];
    expect(y?.modRevision).toBe(x?.modRevision);
    expect(x?.createRevision).toBe(x?.modRevision);
    if (at !== undefined) expect(x?.modRevision).toBe(at);
  }
});

test('a commit whose answer is lost is there once, and its guarded replay does nothing', async () => {
  await using etcd = await startEtcd();
  await using proxy = await TcpProxy.start(etcd.port);
  await using near = await openEtcd({ hosts: [etcd.host] });
  // There is another way to etcd, and the transaction must not be sent again on it.
  await using far = await openEtcd({ hosts: [proxy.host, etcd.host] });
  const from = after(await near.revision());
  proxy.holdAnswers();
  const create = { if: [{ key: 'a', is: 'absent' as const }], then: [{ put: 'a', value: 'far' }] };
  const lost = failureOf(far.txn(create));
  await changesUpTo(near, { prefix: 'a' }, from, from);
  proxy.cut();
  proxy.releaseAnswers();
  expect(mayBeWritten(await lost)).toBe(true);
  const replay = await far.txn(create);
  expect(replay).toMatchObject({ committed: false, failed: [{ current: { value: 'far', modRevision: from } }] });
});

test('a watch cut anywhere on the wire misses and repeats nothing', { tags: [longTag] }, async () => {
  await using etcd = await startEtcd();
  await using proxy = await TcpProxy.start(etcd.port);
  await using near = await openEtcd({ hosts: [etcd.host] });
  await using far = await openEtcd({ hosts: [proxy.host] });
  const from = after(await near.revision());
  let to = await fill(near, '/w/', 4002, 'x'.repeat(100));
  to = await write(near, { put: '/w/a', value: '1' }, { delete: '/w/000000' }, { put: '/w/b', value: '1' });
  const whole = await changesUpTo(near, { prefix: '/w/' }, from, to);
  const seen: Change[] = [];
  let next = from;
  for (let budget = 1; next <= to;) {
    const { cuts } = proxy;
    proxy.cutAfter(budget);
    try {
      for await (const batch of far.watch({ prefix: '/w/' }, next, new AbortController().signal)) {
        seen.push(...batch.events);
        next = after(batch.revision);
        if (next > to) break;
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
    // a client that waits before it connects again has spent none of it
    if (proxy.cuts > cuts) budget = budget > 300_000 ? 1 : Math.ceil(budget * 1.5);
  }
  expect(seen).toEqual(whole);
  expect(proxy.cuts).toBeGreaterThan(20);
});

test('a full etcd says that it is full and nothing was written, is read, and takes deletions', async () => {
  await using etcd = await startEtcd(['--quota-backend-bytes=8000000']);
  await using store = await openEtcd({ hosts: [etcd.host], quotaBytes: 8_000_000 });
  const create = async (key: string) =>
    committed(await store.txn({ if: [{ key, is: 'absent' }], then: [{ put: key, value: 'x'.repeat(1_000_000) }] }));
  const { room } = await store.size();
  let written = 0;
  let error: Error | undefined;
  // a write that took too long on a busy machine says nothing of the room that is left
  for (; written < 50 && error?.message.includes('DEADLINE_EXCEEDED') !== false; written++)
    error = await create(`${written}`).then(
      () => undefined,
      (thrown: Error) => thrown,
    );
  expect(isFull(error)).toBe(true);
  expect(isUnavailable(error)).toBe(true);
  expect(mayBeWritten(error)).toBe(false);
  expect(error?.message).toContain('space exceeded');
  expect(room).toBeGreaterThan(7_000_000);
  expect((await store.size()).room).toBeLessThan(1_500_000);
  expect(await store.get('0')).toBeDefined();
  expect(await store.get(`${written - 1}`)).toBeUndefined();
  committed(await store.txn({ if: [{ key: '0', is: 'present' }], then: [{ delete: '0' }] }));
  expect(await store.get('0')).toBeUndefined();
});

test('what several write at once into a full etcd is written or not as its answer says', async () => {
  await using etcd = await startEtcd(['--quota-backend-bytes=8000000']);
  await using store = await openEtcd({ hosts: [etcd.host], quotaBytes: 8_000_000 });
  const outcomes = new Map<string, 'written' | 'not written' | 'unknown'>();
  const count = (wanted: string) => [...outcomes.values()].filter((outcome) => outcome === wanted).length;
  for (let round = 0; round < 100 && count('not written') < 8; round++)
    await Promise.all(
      Array.from({ length: 4 }, async (_, n) => {
        const key = `/${round}/${n}`;
        const guards = n === 3 ? [] : [{ key, is: 'absent' as const }];
        try {
          const { committed: isCommitted } = await store.txn({
            if: guards,
            then: [
              { put: `${key}/more`, value: '' },
              { put: key, value: `${n}`.repeat(300_000) },
            ],
          });
          outcomes.set(key, isCommitted ? 'written' : 'not written');
        } catch (error) {
          if (!isUnavailable(error)) throw error;
          outcomes.set(key, mayBeWritten(error) ? 'unknown' : 'not written');
          if (isFull(error) && n < 3) expect(mayBeWritten(error)).toBe(false);
        }
      }),
    );
  for (const [key, outcome] of outcomes)
    if (outcome !== 'unknown')
      expect([key, (await store.get(key)) === undefined ? 'not written' : 'written']).toEqual([key, outcome]);
  expect(count('written')).toBeGreaterThan(10);
  expect(count('not written')).toBeGreaterThanOrEqual(8);
});

test('a cluster that is not there is unavailable at the start', async () => {
  const etcd = await startEtcd();
  await etcd[Symbol.asyncDispose]();
  expect(isUnavailable(await failureOf(openEtcd({ hosts: [etcd.host] })))).toBe(true);
});

test('a transaction that never left for etcd is not written, and says so', async () => {
  const etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host] });
  await etcd[Symbol.asyncDispose]();
  const errors = await Promise.all(Array.from({ length: 3 }, (_, n) => failureOf(put(store, `${n}`, ''))));
  await store.close();
  const closed = await failureOf(put(store, 'a', ''));
  for (const error of [errors.at(-1), closed]) {
    expect(isUnavailable(error)).toBe(true);
    expect(mayBeWritten(error)).toBe(false);
  }
});
