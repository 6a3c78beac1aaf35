import type { Clock } from '../../time/clock.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

const writtenAtMostEveryMs = 10 * 60_000;

/**
 * Records that a service key was used: at most one write per key in ten minutes, so that a key in a loop does not fill
 * the history of the store. It never fails a request: a write that fails is left to the next use.
 */
export function createKeyUse(clock: Clock): (key: ReadonlyResource<'service_key'>, repo: Repository) => void {
  /** When a write was last tried, so that an unavailable store is not asked at every request. */
  const tried = new WeakMap<ReadonlyResource<'service_key'>, number>();
  return (key, repo) => {
    const now = clock.now();
    const last = key.observed?.last_used_at;
    if (last !== undefined && now.getTime() - Date.parse(last) < writtenAtMostEveryMs) return;
    const before = tried.get(key);
    if (before !== undefined && clock.monotonic() - before < writtenAtMostEveryMs) return;
    tried.set(key, clock.monotonic());
    const observed = {
      last_used_at: now.toISOString(),
      observedGeneration: key.meta.generation,
      conditions: [],
    };
    repo.observe(key, observed, []).catch((error: unknown) => {
      if (!isConflict(error) && !isUnavailable(error)) throw error;
    });
  };
}
