import { wait } from '../../store/clock.ts';
import { revision, type Revision } from '../../store/revision.ts';
import { limits } from '../runtime/limits.ts';
import type { Background } from '../runtime/manager.ts';

/**
 * Forgets history that nobody needs: keeps at least 10 000 revisions and at least 10 min, so that a watch that was away
 * for as long goes on where it was. A pass that fails is repeated by the next one.
 */
export const compaction: Background = {
  name: 'compaction',
  async run({ signal }, { store, clock, log, metrics }) {
    const seen: { revision: Revision; at: number }[] = [];
    let compacted = 0;
    for (;;) {
      try {
        const current = await store.revision();
        const at = clock.monotonic();
        seen.push({ revision: current, at });
        const target = compactionPoint(seen, current, at);
        while (seen[1] !== undefined && at - seen[1].at >= limits.compaction.keepMs) seen.shift();
        if (target > compacted) {
          await store.compact(revision(target));
          compacted = target;
          metrics.compactedRevision.set(target);
          log.info({ before: target, current }, 'History was compacted');
        }
      } catch (error) {
        log.warn({ err: error }, 'History was not compacted');
      }
      await wait(clock, limits.compaction.everyMs, signal);
    }
  },
};

/** History below it may go; 0 if none may. Pure. `seen` is in the order of time. */
export function compactionPoint(
  seen: readonly { revision: number; at: number }[],
  current: number,
  now: number,
): number {
  const old = seen.findLast(({ at }) => now - at >= limits.compaction.keepMs);
  if (old === undefined) return 0;
  return Math.max(0, Math.min(old.revision, current - limits.compaction.keepRevisions));
}
