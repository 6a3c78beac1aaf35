import { pino } from 'pino';
import { expect, test } from 'vitest';
import { announceReplica } from '../../../controllers/gateway/announce-replica.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { keys } from '../../../store/keys.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Lease } from '../../../store/store.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';

/** Counts the leases that are neither revoked nor lost. */
class LeaseCountingStore extends FaultyStore {
  open = 0;

  override async lease(ttlMs: number): Promise<Lease> {
    const lease = await super.lease(ttlMs);
    this.open++;
    lease.lost.addEventListener('abort', () => this.open--, { once: true });
    return lease;
  }
}

test('a replica that could not be announced at first has one lease', async () => {
  const clock = new FakeClock();
  await using sqlite = await openSqlite({ path: ':memory:', clock });
  const store = new LeaseCountingStore(sqlite);
  for (const k of [1, 2, 3]) store.at(k, 'fail-before-commit');
  const stop = new AbortController();
  const log = pino({ level: 'silent' });
  const announcing = announceReplica(store, clock, log, { id: 'one', url: 'http://one', version: '0' }, stop.signal);
  await clock.advance(3 * limits.session.reclaimMs);
  expect(store.transactions).toBe(4);
  expect(await sqlite.get(keys.replica('one'))).toBeDefined();
  expect(store.open).toBe(1);
  stop.abort();
  await announcing;
  expect(store.open).toBe(0);
});
