import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Store } from '../../store/store.ts';
import { serviceUnavailable } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';

/** How long a request waits for the mirror. */
export const patienceMs = 2000;

/** The error of a request that waited too long for the mirror. */
export function notFollowing(): ApiError {
  return serviceUnavailable('The store does not answer, or this replica is behind it');
}

/**
 * Makes reads of the mirror linearizable: waits until the mirror shows what was committed before the call. One read of
 * the store's revision serves every caller that came before that read began. The next read waits only for the read
 * before it, not for the mirror.
 */
export function createFreshness(
  store: Pick<Store, 'revision'>,
  mirror: Pick<Mirror, 'applied' | 'reached'>,
  clock: Clock,
): () => Promise<void> {
  let reading: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const start = async (): Promise<void> => {
    next = undefined;
    const patience = new AbortController();
    const late = Promise.withResolvers<never>();
    const cancel = clock.timer(patienceMs, () => {
      const error = notFollowing();
      patience.abort(error);
      late.reject(error);
    });
    try {
      const read = Promise.race([store.revision(), late.promise]);
      const over = (): void => {
        if (reading === current) reading = undefined;
      };
      const current: Promise<void> = read.then(over, over);
      reading = current;
      const revision = await read;
      if (mirror.applied < revision) await mirror.reached(revision, patience.signal);
    } finally {
      cancel();
    }
  };

  return () => {
    if (reading === undefined) return start();
    // a read under way may have begun before this caller's own write: wait for the next one
    next ??= reading.then(start);
    return next;
  };
}
