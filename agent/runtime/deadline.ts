import type { Clock } from '../../time/clock.ts';

/** Makes a signal that aborts with `signal`, or after `ms` milliseconds with an error that names `what`. */
export function deadline(
  clock: Clock,
  ms: number,
  what: string,
  signal: AbortSignal,
): { signal: AbortSignal } & Disposable {
  const expiry = new AbortController();
  const cancel = clock.timer(ms, () => expiry.abort(new Error(`${what} did not end within ${ms} ms`)));
  return { signal: AbortSignal.any([signal, expiry.signal]), [Symbol.dispose]: cancel };
}
