import type { WebSocket } from 'ws';

/** A text frame that is encoded once and written to many sockets. */
export class PreparedFrame {
  readonly text: string;
  #encoded: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The bytes on the wire. Frames of a server have no mask. */
  get encoded(): Buffer {
    this.#encoded ??= encode(Buffer.from(this.text));
    return this.#encoded;
  }
}

/** The sender inside every ws socket. The public `send` of ws would encode a frame again for each socket. */
interface Sender {
  sendFrame(frame: Buffer[], sent: (error?: Error) => void): void;
}

/**
 * Writes frames in one write and without encoding them again, if this version of ws allows it; otherwise one by one as
 * text. `sent` is called when the last frame was written.
 */
export function writeFrames(socket: WebSocket, frames: readonly PreparedFrame[], sent: (error?: Error) => void): void {
  const sender = senderOf(socket);
  if (sender === undefined) for (const frame of frames) socket.send(frame.text, sent);
  else if (frames.length === 1 && frames[0] !== undefined) sender.sendFrame([frames[0].encoded], sent);
  else sender.sendFrame([Buffer.concat(frames.map((frame) => frame.encoded))], sent);
}

function senderOf(socket: WebSocket): Sender | undefined {
  if (!('_sender' in socket) || typeof socket._sender !== 'object' || socket._sender === null) return undefined;
  // checked at run time; other packages use this private method for the same purpose
  return 'sendFrame' in socket._sender && typeof socket._sender.sendFrame === 'function'
    ? (socket._sender as Sender)
    : undefined;
}

/** One unfragmented, unmasked text frame (RFC 6455, section 5.2). */
function encode(payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x81;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}
