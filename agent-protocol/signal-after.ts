import { CallError } from './call-error.ts';
import type { Clock } from './clock.ts';

/** A signal that aborts after `ms` of `clock`, or with `parent`. To be cancelled when it is not needed any more. */
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
