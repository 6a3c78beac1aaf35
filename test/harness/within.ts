/** The promise, or a failure that says what did not happen in 10 s. */
export function within<T>(what: string, promise: Promise<T>, timeoutMs = 10_000): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`Did not happen within ${timeoutMs} ms: ${what}`)), timeoutMs);
  timer.unref();
  return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}
