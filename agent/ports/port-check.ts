import { once } from 'node:events';
import { connect } from 'node:net';

const connectMs = 2_000;
/** A reset comes within this time: the connection stays on this machine. */
const quietMs = 50;

/**
 * Tests a port by an ordinary connection. Returns `undefined` if the connection is accepted and not reset: the holder
 * of a port without an instance resets it. Otherwise returns the error code.
 */
export async function refusalAt(address: string, port: number, signal: AbortSignal): Promise<string | undefined> {
  const socket = connect({ host: address, port });
  socket.on('error', () => undefined); // an error after the test
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
