import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import { keys } from '../../../store/keys.ts';
import { startMirror } from '../../../store/store-mirror.ts';
import type { Mirror } from '../../../store/mirror.ts';
import type { Store } from '../../../store/store.ts';
import { put } from '../../contract/store-steps.ts';
import { startEtcd } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';

const running = new AsyncDisposableStack();
let etcd: EtcdServer;
let store: Store & AsyncDisposable;
let mirror: Mirror & AsyncDisposable;

beforeAll(async () => {
  etcd = running.use(await startEtcd());
  store = running.use(await openEtcd({ hosts: [etcd.host] }));
  mirror = running.use(startMirror({ store, clock: systemClock, log: pino({ level: 'silent' }) }));
  await mirror.ready;
});
afterAll(() => running.disposeAsync());

const current = async (): Promise<void> => mirror.reached(await store.revision(), AbortSignal.timeout(10_000));

test('a key that another program writes into the cluster holds up no reader', async () => {
  await put(store, keys.replica('a'), 'ours');
  await current();
  for (const value of ['1', '2', '3']) {
    await etcd.etcdctl('put', 'health', value);
    await current();
  }
  expect(mirror.key(keys.replica('a'))?.value).toBe('ours');
});

test('many who wait for the same revision cost one write, and nothing is written when they are gone', async () => {
  await current();
  await etcd.etcdctl('put', 'health', 'again');
  const before = await store.revision();
  await Promise.all(Array.from({ length: 50 }, current));
  expect(await store.revision()).toBe(before + 1);
  await current();
  expect(await store.revision()).toBe(before + 1);
});

test('a key of another program that changes all the time holds up no reader, and costs a write for each that waits', async () => {
  let barriers = 0;
  await using stack = new AsyncDisposableStack();
  stack.defer(mirror.subscribeKeys(({ key }) => void (barriers += key === keys.meta('barrier') ? 1 : 0)));
  let isOver = false;
  let written = 0;
  const others = async (): Promise<void> => {
    for (; !isOver; written++) await store.txn({ if: [], then: [{ put: '/elsewhere', value: 'x' }] });
  };
  const writing = others();
  stack.defer(() => {
    isOver = true;
    return writing;
  });
  for (let n = 0; n < 5; n++) {
    const wanted = await store.revision();
    await mirror.reached(wanted, AbortSignal.timeout(10_000));
    expect(mirror.applied).toBeGreaterThanOrEqual(wanted);
  }
  expect(barriers).toBeGreaterThan(0);
  expect(barriers).toBeLessThanOrEqual(5);
  expect(written).toBeGreaterThan(barriers);
});
