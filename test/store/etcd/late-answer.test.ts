import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from '../../../time/clock.ts';
import { isUnavailable } from '../../../store/errors.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import { startEtcd } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';
import { until } from '../../harness/until.ts';

const ttlMs = 9000;
const lostAfterMs = ttlMs * 0.85;
let stack: AsyncDisposableStack;
let etcd: EtcdServer;
let proxy: TcpProxy;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  etcd = stack.use(await startEtcd());
  proxy = stack.use(await TcpProxy.start(etcd.port));
});
afterEach(() => stack.disposeAsync());

test('a holder whose renewal is answered late counts from when it was sent', async () => {
  const clock = new FakeClock();
  await using store = await openEtcd({ hosts: [proxy.host], clock });
  const lease = await store.lease(ttlMs);
  proxy.holdAnswers();
  await clock.advance(ttlMs / 3); // the renewal is sent
  await clock.advance(2000);
  const waiting = clock.pending;
  proxy.releaseAnswers();
  await until('the renewal is answered', async () => clock.pending > waiting);
  proxy.holdAnswers();
  await clock.advance(lostAfterMs - 2000 - 1);
  expect(lease.lost.aborted).toBe(false);
  await clock.advance(1);
  expect(lease.lost.aborted).toBe(true);
});

test('an answer that comes after the deadline renews nothing, though no timer has fired yet', async () => {
  const clock = new StandingClock();
  await using store = await openEtcd({ hosts: [proxy.host], clock });
  const lease = await store.lease(ttlMs);
  proxy.holdAnswers();
  clock.fire();
  clock.time = lostAfterMs;
  proxy.releaseAnswers();
  await until('the lease is lost', async () => lease.lost.aborted);
  expect(isUnavailable(lease.lost.reason)).toBe(true);
});

/** As of a process that stood still: time has passed, and its timers have yet to tell it. */
class StandingClock implements Clock {
  time = 0;
  readonly #timers = new Map<() => void, number>();

  now(): Date {
    return new Date(0);
  }

  monotonic(): number {
    return this.time;
  }

  timer(ms: number, fn: () => void): () => void {
    this.#timers.set(fn, this.time + ms);
    return () => this.#timers.delete(fn);
  }

  /** Fires the timer that is due first. */
  fire(): void {
    const [first] = [...this.#timers].toSorted(([, a], [, b]) => a - b);
    if (first === undefined) return;
    const [fn, due] = first;
    this.#timers.delete(fn);
    this.time = due;
    fn();
  }
}
