import { expect, test } from 'vitest';
import { isConflict } from '../../../store/errors.ts';
import type { Clock } from '../../../time/clock.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { after, changesUpTo, failureOf, write } from '../../contract/store-steps.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

/** A clock whose timers come late, as those of a process that was stopped. */
class LateClock implements Clock {
  #time = 0;
  #timers: { due: number; fire: () => void }[] = [];

  now(): Date {
    return new Date(0);
  }

  monotonic(): number {
    return this.#time;
  }

  timer(ms: number, fire: () => void): () => void {
    const timer = { due: this.#time + ms, fire };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((it) => it !== timer);
    };
  }

  jump(ms: number): void {
    this.#time += ms;
    for (const timer of this.#timers.filter((it) => it.due <= this.#time).toSorted((a, b) => a.due - b.due)) {
      this.#timers = this.#timers.filter((it) => it !== timer);
      timer.fire();
    }
  }
}

test('a lease lives on while time goes on, and its timer ends with it', async () => {
  const clock = new FakeClock();
  await using store = await openSqlite({ path: ':memory:', clock });
  const lease = await store.lease(3000);
  await write(store, { put: 'a', value: '', lease: lease.id });
  await clock.advance(3_600_000);
  expect(lease.lost.aborted).toBe(false);
  expect(await store.get('a')).toBeDefined();
  await lease.revoke();
  expect(clock.pending).toBe(0);
});

test('a process that stood still for too long has lost its leases, and their keys go in one revision', async () => {
  const clock = new LateClock();
  await using store = await openSqlite({ path: ':memory:', clock });
  const lease = await store.lease(3000);
  const at = await write(
    store,
    { put: 'a', value: '', lease: lease.id },
    { put: 'b', value: '', lease: lease.id },
    { put: 'c', value: '' },
  );
  clock.jump(3000 * 0.85 - 1);
  expect(lease.lost.aborted).toBe(false);
  clock.jump(3000 * 0.85);
  expect(lease.lost.aborted).toBe(true);
  expect(isConflict(await failureOf(write(store, { put: 'd', value: '', lease: lease.id })))).toBe(true);
  const gone = (await changesUpTo(store, { prefix: '' }, after(at), after(at))).map((change) => change.key);
  expect(gone).toEqual(['a', 'b']);
  expect((await store.list({ prefix: '' })).entries.map((entry) => entry.key)).toEqual(['c']);
});

test('leases of a closed store leave no timer', async () => {
  const clock = new FakeClock();
  const store = await openSqlite({ path: ':memory:', clock });
  const lease = await store.lease(3000);
  await store.close();
  expect(lease.lost.aborted).toBe(true);
  expect(clock.pending).toBe(0);
});
