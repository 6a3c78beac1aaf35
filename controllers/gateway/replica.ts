import type { Logger } from 'pino';
import { z } from 'zod';
import { wait } from '../../store/clock.ts';
import type { Clock } from '../../store/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Store } from '../../store/store.ts';
import { limits } from './limits.ts';

/** A replica of the control plane as the others see it. */
export interface Replica {
  id: string;
  /** Where the others reach it, `http:` or `https:`. */
  url: string;
  version: string;
}

const Stored = z.object({ url: z.string(), version: z.string() });

/** The address of another replica; `undefined`: it is not in the directory. */
export function replicaUrl(mirror: Pick<Mirror, 'key'>, id: string): string | undefined {
  const entry = mirror.key(keys.replica(id));
  const stored = Stored.safeParse(entry && JSON.parse(entry.value));
  return stored.success ? stored.data.url : undefined;
}

/** Keeps the replica in the directory, under leases that follow each other, until the signal aborts. */
export async function announceReplica(
  store: Store,
  clock: Clock,
  log: Logger,
  replica: Replica,
  signal: AbortSignal,
): Promise<void> {
  const value = JSON.stringify({ url: replica.url, version: replica.version } satisfies z.infer<typeof Stored>);
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
  await store.txn({ if: [], then: [{ put: key, value, lease: lease.id }] });
  const over = AbortSignal.any([lease.lost, signal]);
  if (!over.aborted)
    await new Promise<void>((resolve) => over.addEventListener('abort', () => resolve(), { once: true }));
  if (signal.aborted) await lease.revoke();
}
