import { expect, test } from 'vitest';
import { isUnavailable, mayBeWritten } from '../../../store/errors.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import { after, changesUpTo, failureOf, put, write } from '../../contract/store-steps.ts';
import { startEtcdCluster } from '../../harness/etcd.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

test('a store outlives a member of its cluster, and is unavailable without a majority', async () => {
  const members = await startEtcdCluster(3);
  await using stack = new AsyncDisposableStack();
  for (const member of members) stack.use(member);
  await using store = await openEtcd({ hosts: members.map((member) => member.host) });
  const lease = await store.lease(5000);
  await write(store, { put: 'leased', value: '1', lease: lease.id });

  await members[0]?.kill();
  for (let n = 0; n < 100; n++) {
    const guarded = { if: [{ key: `${n}`, is: 'absent' as const }], then: [{ put: `${n}`, value: `${n}` }] };
    for (let isDone = false; !isDone;)
      isDone = await store.txn(guarded).then(
        () => true,
        (error: unknown) => {
          if (!isUnavailable(error)) throw error;
          return false;
        },
      );
    expect((await store.get(`${n}`))?.value).toBe(`${n}`);
  }
  const at = await put(store, 'last', '1');
  const watch = store.watch({ prefix: 'last' }, at, new AbortController().signal)[Symbol.asyncIterator]();
  expect((await watch.next()).value).toMatchObject({ events: [{ key: 'last' }] });
  expect(lease.lost.aborted).toBe(false);

  // The member that serves the watch is the one that stays: it has to notice that it is alone.
  const end = failureOf(watch.next());
  await members[2]?.kill();
  expect(isUnavailable(await end)).toBe(true);
  expect(isUnavailable(await failureOf(store.get('last')))).toBe(true);
  expect(isUnavailable(await failureOf(put(store, 'last', '2')))).toBe(true);
});

test('the health of a cluster shows each member, its leader and who does not answer', async () => {
  const members = await startEtcdCluster(3);
  await using stack = new AsyncDisposableStack();
  for (const member of members) stack.use(member);
  await using store = await openEtcd({ hosts: members.map((member) => member.host) });
  const whole = await store.health();
  if (whole.backend !== 'etcd') throw new Error('It is no etcd');
  expect(whole.members).toHaveLength(3);
  expect(whole.members.filter(({ status }) => status?.isLeader === true)).toHaveLength(1);
  expect(whole.members.every(({ status }) => (status?.bytes ?? 0) > 0 && status?.version.includes('.') === true)).toBe(
    true,
  );
  expect(whole).toMatchObject({ alarms: [], quotaBytes: 2 * 1024 ** 3 });
  expect(whole.revision).toBeLessThanOrEqual(await store.revision());

  await members[0]?.kill();
  const left = await until('a majority leads', () => store.health().catch(() => undefined));
  if (left.backend !== 'etcd') throw new Error('It is no etcd');
  expect(left.members.filter(({ status }) => status === undefined)).toHaveLength(1);
  expect(left.members.filter(({ status }) => status !== undefined)).toHaveLength(2);
});

test(
  'a transaction that a member took and did not answer in time is unknown, and is not sent to another one',
  { tags: [longTag] },
  async () => {
    const members = await startEtcdCluster(3);
    await using stack = new AsyncDisposableStack();
    for (const member of members) stack.use(member);
    const [first, ...others] = members;
    const proxy = stack.use(await TcpProxy.start(first!.port));
    await using near = await openEtcd({ hosts: others.map((member) => member.host) });
    await using far = await openEtcd({ hosts: [proxy.host, ...others.map((member) => member.host)] });
    const from = after(await near.revision());
    proxy.holdAnswers();
    const create = { if: [{ key: 'a', is: 'absent' as const }], then: [{ put: 'a', value: 'far' }] };
    const lost = failureOf(far.txn(create));
    await changesUpTo(near, { prefix: 'a' }, from, from);
    await first?.freeze();
    expect(mayBeWritten(await lost)).toBe(true);
    // the calls that follow go elsewhere at once
    expect(await far.txn(create)).toMatchObject({ committed: false, failed: [{ current: { value: 'far' } }] });
    first?.thaw();
  },
);
