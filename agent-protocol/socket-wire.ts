import { WebSocket } from 'ws';
import type { RawData } from 'ws';
import type { Clock } from '../time/clock.ts';
import type { Frame, Wire } from './wire.ts';

/** What a session does with its connection. */
export interface WireUser {
  receive(frame: Frame): void;
  /** The peer sent a ping or a pong of the WebSocket protocol. No release sends any. */
  pinged?(): void;
  drained(): void;
  closed(why: string): void;
}

const closeGraceMs = 3000;
/** Most frames that are read after the close, as they were on their way. */
const lateFrames = 1000;

/**
 * The wire of an open WebSocket. A peer that does not answer a close within 3 s, or goes on sending, is cut off.
 *
 * @param restAfter milliseconds for which nothing is read from the socket after that frame, so that a peer that sends
 *   faster has to wait
 */
export function socketWire(
  socket: WebSocket,
  clock: Clock,
  user: () => WireUser,
  restAfter: (frame: Frame) => number = () => 0,
): Wire {
  let isClosing = false;
  let endRest: (() => void) | undefined;
  const rest = (ms: number): void => {
    endRest?.();
    socket.pause();
    endRest = clock.timer(ms, resume);
  };
  const resume = (): void => {
    endRest?.();
    endRest = undefined;
    socket.resume();
  };
  let late = 0;
  const count = (): void => {
    if (isClosing && ++late > lateFrames) socket.terminate();
  };
  socket.on('message', (data, isBinary) => {
    count();
    const frame = frameOf(data, isBinary);
    const restMs = isClosing ? 0 : restAfter(frame);
    user().receive(frame);
    if (restMs > 0 && !isClosing) rest(restMs);
  });
  for (const event of ['ping', 'pong'] as const)
    socket.on(event, () => {
      count();
      user().pinged?.();
    });
  socket.on('error', (error) => user().closed(error.message)); // `close` follows; without a listener it would throw
  socket.on('close', () => endRest?.());
  socket.on('close', (code, reason) => user().closed(reason.toString('utf8') || `Connection closed (${code})`));
  return {
    get buffered() {
      return socket.bufferedAmount;
    },
    send(frame) {
      if (socket.readyState === WebSocket.OPEN)
        socket.send(frame, { binary: typeof frame !== 'string' }, () => user().drained());
    },
    close(code, reason) {
      if (socket.readyState === WebSocket.CLOSED) return;
      isClosing = true;
      if (endRest !== undefined) resume(); // the answer to the close is read
      socket.close(code, reason);
      const cancel = clock.timer(closeGraceMs, () => socket.terminate());
      socket.once('close', cancel);
    },
  };
}

function frameOf(data: RawData, isBinary: boolean): Frame {
  const bytes = Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? Buffer.from(data) : data;
  return isBinary ? bytes : bytes.toString('utf8');
}
