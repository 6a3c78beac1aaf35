import type { Clock } from '../store/clock.ts';
import type { Mirror } from '../store/mirror.ts';
import type { Store } from '../store/store.ts';
import { serviceUnavailable } from './api-error.ts';

const patienceMs = 2000;

/**
 * Makes reads of the mirror linearizable: waits until it shows what was committed before the call. One read of the
 * store's revision serves every caller that came before that read began.
 */
export function createFreshness(
  store: Pick<Store, 'revision'>,
  mirror: Pick<Mirror, 'applied' | 'reached'>,
  clock: Clock,
): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const catchUp = async (): Promise<void> => {
    const patience = new AbortController();
    const late = Promise.withResolvers<never>();
    const cancel = clock.timer(patienceMs, () => {
      const error = serviceUnavailable('The store does not answer, or this replica is behind it');
      patience.abort(error);
      late.reject(error);
    });
    try {
      const revision = await Promise.race([store.revision(), late.promise]);
      if (mirror.applied < revision) await mirror.reached(revision, patience.signal);
    } finally {
      cancel();
    }
  };

  const start = (): Promise<void> => {
    next = undefined;
    const current = catchUp().finally(() => {
      if (running === current) running = undefined;
    });
    running = current;
    return current;
  };

  return () => {
    if (running === undefined) return start();
    // a read that is under way may have begun before this caller's own write: wait for the one after it
    next ??= running.then(start, start);
    return next;
  };
}
