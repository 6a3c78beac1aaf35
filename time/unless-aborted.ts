/** Waits for the work until it ends or the signal aborts. An abort ends the wait, not the work. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error); // an error, unless a caller passed another value
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
    // After an abort, a failure of the work is ignored.
    work.catch(() => undefined);
  }
}
