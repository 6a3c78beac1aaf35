import { encodeSample } from '../../agent-protocol/metrics.ts';
import type { LoadMeter } from '../machine/load.ts';

/**
 * Yields the newest sample as a line, at once and whenever there is a newer one, until the signal aborts. A reader that
 * is slow gets the newest one when it reads again; what it missed is not kept for it.
 */
export async function* newestSamples(
  meter: Pick<LoadMeter, 'sample' | 'onSample'>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  let wake = Promise.withResolvers<void>();
  const notify = (): void => wake.resolve();
  const unsubscribe = meter.onSample(notify);
  signal.addEventListener('abort', notify, { once: true });
  try {
    while (!signal.aborted) {
      wake = Promise.withResolvers();
      yield encodeSample(meter.sample);
      await wake.promise;
    }
  } finally {
    unsubscribe();
    signal.removeEventListener('abort', notify);
  }
}
