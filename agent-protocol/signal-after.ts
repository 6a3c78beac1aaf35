import { CallError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';

/** Makes a signal that aborts after `ms` milliseconds, or with `parent`. Call `cancel` when it is no longer needed. */
export function signalAfter(
  clock: Clock,
  ms: number,
  parent?: AbortSignal,
): { signal: AbortSignal; cancel: () => void } {
  const controller = new AbortController();
  const stop = clock.timer(ms, () => controller.abort(new CallError('timeout', `Took longer than ${ms} ms`)));
  const abort = (): void => controller.abort(parent?.reason);
  if (parent?.aborted === true) abort();
  parent?.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    cancel() {
      stop();
      parent?.removeEventListener('abort', abort);
    },
  };
}
