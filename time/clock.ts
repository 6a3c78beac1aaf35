/** Time as an argument: monotonic time for waits and deadlines, the wall clock for display. */
export interface Clock {
  /** Wall clock, for display and for tokens that other machines made. */
  now(): Date;
  /** Milliseconds since an arbitrary start; never jumps. */
  monotonic(): number;
  /** Calls `fn` once after `ms` milliseconds. Returns a function that cancels it. Does not keep the process alive. */
  timer(ms: number, fn: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  timer(ms, fn) {
    const handle = setTimeout(fn, ms);
    handle.unref();
    return () => clearTimeout(handle);
  },
};

/** Resolves after `ms` milliseconds of `clock`; rejects with the signal's reason when aborted. */
export function wait(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error); // an AbortSignal's reason is an error unless a caller passed another value
      return;
    }
    const abort = (): void => {
      cancel();
      reject(signal.reason as Error); // as above
    };
    const cancel = clock.timer(ms, () => {
      signal.removeEventListener('abort', abort);
      resolve();
    });
    signal.addEventListener('abort', abort, { once: true });
  });
}
