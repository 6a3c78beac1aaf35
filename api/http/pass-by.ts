import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../time/clock.ts';

const mostBytes = 8 * 1024 * 1024;
const mostMs = 5000;

/**
 * Reads the rest of a request's body and drops it. Closing the connection before its end would reset it, and the reset
 * can destroy an answer that the client has not read yet. Resolves at the end of the body, after 8 MiB, or after 5 s.
 */
export function passBy(request: IncomingMessage, clock: Pick<Clock, 'timer'>): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0;
    const onData = (part: Buffer): void => {
      bytes += part.length;
      if (bytes > mostBytes) end();
    };
    const end = (): void => {
      cancel();
      request.off('data', onData).off('end', end).off('close', end).pause();
      resolve();
    };
    const cancel = clock.timer(mostMs, end);
    request.on('data', onData).on('end', end).on('close', end).resume();
  });
}
