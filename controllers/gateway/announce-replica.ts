import type { Logger } from 'pino';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { announcementOf } from '../../store/replicas.ts';
import type { Replica } from '../../store/replicas.ts';
import type { Store } from '../../store/store.ts';
import { limits } from './limits.ts';

/** Keeps the replica in the directory, under leases that follow each other, until the signal aborts. */
export async function announceReplica(
  store: Store,
  clock: Clock,
  log: Logger,
  replica: Replica,
  signal: AbortSignal,
): Promise<void> {
  const value = announcementOf(replica);
  while (!signal.aborted) {
    try {
      await announceOnce(store, keys.replica(replica.id), value, signal);
    } catch (error) {
      if (!isUnavailable(error))
        log.error(
          { err: error },
          'Cannot announce this replica to the others: they do not reach the agents that it holds',
        );
      await wait(clock, limits.session.reclaimMs, signal).catch(() => undefined); // aborted: the loop ends
    }
  }
}

async function announceOnce(store: Store, key: string, value: string, signal: AbortSignal): Promise<void> {
  const lease = await store.lease(limits.session.leaseMs);
  try {
    await store.txn({ if: [], then: [{ put: key, value, lease: lease.id }] });
  } catch (error) {
    // The next try takes another one, and a lease that is not revoked goes on being renewed.
    await lease.revoke().catch(() => undefined);
    throw error;
  }
  const over = AbortSignal.any([lease.lost, signal]);
  if (!over.aborted)
    await new Promise<void>((resolve) => over.addEventListener('abort', () => resolve(), { once: true }));
  if (signal.aborted) await lease.revoke();
}
