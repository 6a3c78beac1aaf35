import { once } from 'node:events';
import { connect } from 'node:net';

const connectMs = 2_000;
/** An answer that is a reset comes at once: on this machine there is no way between. */
const quietMs = 50;

/**
 * Makes a connection as everybody would. `undefined`: it was answered, and not by the program that holds ports without
 * an instance, which resets it. Otherwise the code of what went wrong.
 */
export async function refusalAt(address: string, port: number, signal: AbortSignal): Promise<string | undefined> {
  const socket = connect({ host: address, port });
  socket.on('error', () => undefined); // one that comes when nobody waits any more
  const limit = AbortSignal.any([signal, AbortSignal.timeout(connectMs)]);
  try {
    await once(socket, 'connect', { signal: limit });
    const quiet = AbortSignal.timeout(quietMs);
    await once(socket, 'data', { signal: quiet }).catch((error: unknown) => {
      if (!quiet.aborted) throw error;
    });
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return limit.aborted ? 'ETIMEDOUT' : codeOf(error);
  } finally {
    socket.destroy();
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}
