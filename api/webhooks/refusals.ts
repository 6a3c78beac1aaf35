import type { Clock } from '../../time/clock.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

const writtenAtMostEveryMs = 10_000;
const maxCounted = 10_000;

type Webhook = ReadonlyResource<'git_webhook'>;

/**
 * Counts the calls of a webhook that were refused: at most one write per webhook in ten seconds, so that a flood fills
 * nothing. It never fails a request: what a write misses is in the next one, and what a crash loses is not counted.
 */
export function createRefusals(
  clock: Clock,
  repositoryFor: (tenant: string) => Repository,
): (webhook: Webhook, because: string) => void {
  /** Refusals that are not written yet, and when a write was last tried. */
  const counted = new Map<string, { count: number; triedAt: number | undefined }>();
  return (webhook, because) => {
    const { tenant, id } = webhook.meta;
    const known = counted.get(id) ?? { count: 0, triedAt: undefined };
    known.count += 1;
    if (counted.size >= maxCounted) counted.clear();
    counted.set(id, known);
    const now = clock.monotonic();
    if (known.triedAt !== undefined && now - known.triedAt < writtenAtMostEveryMs) return;
    known.triedAt = now;
    const { count } = known;
    const observed = {
      refused: (webhook.observed?.refused ?? 0) + count,
      last_refused_at: clock.now().toISOString(),
      refused_because: because,
      observedGeneration: webhook.meta.generation,
      conditions: [],
    };
    repositoryFor(tenant)
      .observe(webhook, observed, [])
      .then(
        () => void (known.count -= count),
        (error: unknown) => {
          if (!isConflict(error) && !isUnavailable(error)) throw error;
        },
      );
  };
}
