/** Waits for the work unless the signal aborts first, which ends the waiting and not the work. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error); // an error, unless somebody aborted with another value
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
    // Whoever stopped waiting does not hear of a failure any more.
    work.catch(() => undefined);
  }
}
