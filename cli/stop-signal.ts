/** Aborts at the first SIGINT or SIGTERM; a second one ends the process at once. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => controller.abort(new Error(`Stopped by ${name}`)));
  }
  return controller.signal;
}

/**
 * Resolves when the signal aborts. It keeps the process alive until then: an agent that waits to reconnect holds no
 * socket.
 */
export async function stopped(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const held = setInterval(() => undefined, 2 ** 30);
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  clearInterval(held);
}
