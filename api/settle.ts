import type { Clock } from '../store/clock.ts';
import type { Mirror } from '../store/mirror.ts';

/**
 * Resolves when `isSettled` holds, looked at after each change of the tenant's objects; also when the time is over or
 * the signal aborts, since whoever waits is answered with what there is then.
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
