import { expect, test } from 'vitest';
import { isUnavailable } from '../../../store/errors.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import { after, changesUpTo, failureOf, firstOf, put, write } from '../../contract/store-steps.ts';
import { startEtcd } from '../../harness/etcd.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';
import { longTag } from '../../layer-report.ts';

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

test('a holder that is cut off knows that its lease is lost before its keys go', async () => {
  await using etcd = await startEtcd();
  await using proxy = await TcpProxy.start(etcd.port);
  await using near = await openEtcd({ hosts: [etcd.host] });
  await using far = await openEtcd({ hosts: [proxy.host] });
  // Holder and etcd share this machine: what is kept from the processor for less than 0.9 s still knows it in time.
  const lease = await far.lease(6000);
  const from = after(
    await write(far, { put: '/l/a', value: '', lease: lease.id }, { put: '/l/b', value: '', lease: lease.id }),
  );
  const order: string[] = [];
  const lost = aborted(lease.lost).then(() => order.push('lost'));
  const gone = changesUpTo(near, { prefix: '/l/' }, from, from).then((changes) => {
    order.push('gone');
    return changes;
  });
  proxy.holdAnswers();
  proxy.holdRequests();
  await lost;
  expect((await gone).map((change) => change.key)).toEqual(['/l/a', '/l/b']);
  expect(order).toEqual(['lost', 'gone']);
  expect(isUnavailable(lease.lost.reason)).toBe(true);
});

test(
  'while etcd is frozen leases are lost and calls are unavailable, and afterwards all goes on',
  { tags: [longTag] },
  async () => {
    await using etcd = await startEtcd();
    await using store = await openEtcd({ hosts: [etcd.host] });
    const lease = await store.lease(2000);
    const at = await write(store, { put: '/l/a', value: '', lease: lease.id });
    await etcd.freeze();
    const [read, written] = [failureOf(store.get('/l/a')), failureOf(put(store, '/l/b', '1'))];
    await aborted(lease.lost);
    expect(isUnavailable(await read)).toBe(true);
    expect(isUnavailable(await written)).toBe(true);
    etcd.thaw();
    for (let isBack = false; !isBack;) isBack = await store.revision().then(Boolean, () => false);
    for await (const batch of store.watch({ prefix: '/l/a' }, after(at), new AbortController().signal))
      if (batch.events.some((change) => change.value === undefined)) break;
    expect(await store.get('/l/a')).toBeUndefined();
  },
);

test('a watch that hears nothing asks, and then ends as unavailable', async () => {
  const clock = new FakeClock();
  await using etcd = await startEtcd();
  await using store = await openEtcd({ hosts: [etcd.host], clock });
  const from = await put(store, 'a', '1');
  const watch = store.watch({ prefix: 'a' }, from, new AbortController().signal)[Symbol.asyncIterator]();
  await watch.next();
  const quiet = watch.next();
  for (let n = 0; n < 5; n++) {
    await clock.advance(10_000);
    // The answer to the question comes before the clock moves on.
    await store.revision();
    await store.revision();
  }
  const next = await put(store, 'a', '2');
  expect((await quiet).value).toMatchObject({ revision: next });
  await etcd.freeze();
  const silent = failureOf(watch.next());
  await clock.advance(20_000);
  expect(isUnavailable(await silent)).toBe(true);
  etcd.thaw();
  expect((await firstOf(store, { prefix: 'a' }, next)).events).toHaveLength(1);
});
