import type { Logger } from 'pino';
import { z } from 'zod';
import { wait } from '../../store/clock.ts';
import type { Clock } from '../../store/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { kinds } from '../../store/kinds/kinds.ts';
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

const Stored = z.object({
  url: z.string(),
  version: z.string(),
  /** Highest version of the records of each kind that it reads; absent: it is of a release that did not record that. */
  reads: z.record(z.string(), z.int()).default({}),
});

/** By kind the version of the records that this release writes. */
const written = Object.values(kinds).map(({ kind, version }) => ({ kind, version }));

/** The address of another replica; `undefined`: it is not in the directory. */
export function replicaUrl(mirror: Pick<Mirror, 'key'>, id: string): string | undefined {
  const entry = mirror.key(keys.replica(id));
  return entry && parse(entry.value)?.url;
}

/**
 * URL of a replica in the directory that cannot read all that this release writes; `undefined`: there is none. One that
 * announced nothing about its records is of a release before they were announced.
 */
export function earlierReplica(mirror: Pick<Mirror, 'keysUnder'>): string | undefined {
  const found = mirror.keysUnder(keys.replica('')).map(({ value }) => parse(value));
  return found.find((it) => it && written.some(({ kind, version }) => (it.reads[kind] ?? 0) < version))?.url;
}

/** `undefined`: it is no announcement that this release understands. */
function parse(announcement: string): z.infer<typeof Stored> | undefined {
  try {
    return Stored.safeParse(JSON.parse(announcement)).data;
  } catch {
    return undefined;
  }
}

/** Keeps the replica in the directory, under leases that follow each other, until the signal aborts. */
export async function announceReplica(
  store: Store,
  clock: Clock,
  log: Logger,
  replica: Replica,
  signal: AbortSignal,
): Promise<void> {
  const { url, version } = replica;
  const reads = Object.fromEntries(written.map((it) => [it.kind, it.version]));
  const value = JSON.stringify({ url, version, reads } satisfies z.infer<typeof Stored>);
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
