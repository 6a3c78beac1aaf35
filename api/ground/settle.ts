import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';

/**
 * Resolves when `isSettled` holds; it is evaluated after each change of the tenant's objects. It also resolves when the
 * time is over or the signal aborts, since the client then gets the present state.
 */
export function untilSettled(
  { mirror, clock }: { mirror: Pick<Mirror, 'subscribe'>; clock: Clock },
  tenant: string,
  isSettled: () => boolean,
  patienceMs: number,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    if (isSettled() || signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      cancel();
      unsubscribe();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.timer(patienceMs, end);
    const unsubscribe = mirror.subscribe((change) => {
      if (change.tenant === tenant && isSettled()) end();
    });
    signal.addEventListener('abort', end, { once: true });
  });
}
