/** Aborts at the first interrupt or termination of the process; a second one ends it at once. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => controller.abort(new Error(`Stopped by ${name}`)));
  }
  return controller.signal;
}

/** Resolves when the signal aborts, and keeps the process until then: an agent that waits for its next try holds no socket. */
export async function stopped(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const held = setInterval(() => undefined, 2 ** 30);
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  clearInterval(held);
}
