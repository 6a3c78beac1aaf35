import { wait } from '../../time/clock.ts';
import { revision } from '../../store/revision.ts';
import type { StoreSize } from '../../store/store.ts';
import { limits } from '../runtime/limits.ts';
import type { Background } from '../runtime/manager.ts';

/**
 * Forgets history that is not needed. It keeps at least 10 000 revisions and at least 10 min, so that a watch that was
 * away for as long goes on where it was. It keeps no more than 256 MiB or a fifth of the store: a watch that needs more
 * lists everything again. A pass that fails is repeated by the next one.
 */
export const compaction: Background = {
  name: 'compaction',
  async run({ signal }, { store, mirror, clock, log, metrics }) {
    const seen: Sample[] = [];
    let compacted = 0;
    for (;;) {
      try {
        const current = await store.revision();
        const at = clock.monotonic();
        seen.push({ revision: current, at, received: mirror.received });
        const target = compactionPoint(seen, keptBytes(await store.size()));
        while (seen[1] !== undefined && at - seen[1].at >= limits.compaction.keepMs) seen.shift();
        if (target > compacted) {
          await store.compact(revision(target));
          compacted = target;
          metrics.compactedRevision.set(target);
          log.info({ before: target, current }, 'History was compacted');
        }
      } catch (error) {
        log.warn({ err: error }, 'Cannot compact the history of the store: the next pass tries again');
      }
      await wait(clock, limits.compaction.everyMs, signal);
    }
  },
};

/** The store's revision at a time; `received` counts what the mirror had received until then. */
export interface Sample {
  revision: number;
  at: number;
  received: number;
}

function keptBytes({ bytes, room }: StoreSize): number {
  return Math.min(limits.compaction.keepBytes, (bytes + room) * limits.compaction.keepShare);
}

/** Revision below which history may be forgotten; 0: none. Pure. `seen` is in order of time and ends with now. */
export function compactionPoint(seen: readonly Sample[], keepBytes: number): number {
  const now = seen.at(-1);
  if (now === undefined) return 0;
  const old = seen.findLast(({ at }) => now.at - at >= limits.compaction.keepMs);
  const large = seen.findLast(({ received }) => now.received - received > keepBytes);
  const byAge = old === undefined ? 0 : Math.min(old.revision, now.revision - limits.compaction.keepRevisions);
  return Math.max(0, byAge, large?.revision ?? 0);
}
