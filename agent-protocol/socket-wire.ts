import { WebSocket } from 'ws';
import type { RawData } from 'ws';
import type { Clock } from '../time/clock.ts';
import type { Frame, Wire } from './wire.ts';

/** What a session does with its connection. */
export interface WireUser {
  receive(frame: Frame): void;
  drained(): void;
  closed(why: string): void;
}

const closeGraceMs = 3000;

/** The wire of an open WebSocket. A peer that does not answer a close within 3 s is cut off. */
export function socketWire(socket: WebSocket, clock: Clock, user: () => WireUser): Wire {
  socket.on('message', (data, isBinary) => user().receive(frameOf(data, isBinary)));
  socket.on('error', (error) => user().closed(error.message)); // `close` follows; without a listener it would throw
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
