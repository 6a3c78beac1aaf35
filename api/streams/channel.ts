import { setImmediate } from 'node:timers/promises';
import type { RawData, WebSocket } from 'ws';
import type { Clock } from '../../time/clock.ts';
import { closeCode } from './close-code.ts';
import type { CloseCode } from './close-code.ts';
import { PreparedFrame, writeFrames } from './prepared-frame.ts';

const limits = {
  pingEveryMs: 30_000,
  /** Bytes that may wait for a reader. */
  bufferedBytes: 1024 * 1024,
  /** A reader that does not complete the closing handshake in this time is cut off. */
  closingMs: 2000,
  /** A reader has nothing to send but pongs, and few pings of its own, unless the stream reads. */
  messagesPerPing: 100,
  /** Bytes that a message counts besides its own, as an empty one takes memory, too. */
  messageBytes: 64,
  /** Bytes of messages that may wait to be read: beyond it the socket is not read. */
  unreadBytes: 64 * 1024,
} as const;

/** What a reader sent. */
export interface Message {
  data: Buffer;
  isBinary: boolean;
}

const ping = new PreparedFrame('{"type":"ping"}');

/**
 * The sending end of one stream. What waits for a slow reader is bounded: `isFull` shows it, `drained` waits for room.
 * A reader that answers no ping within 30 s is cut off.
 */
export class Channel {
  readonly #socket: WebSocket;
  readonly #ended = new AbortController();
  readonly #clock: Clock;
  #waiters: (() => void)[] = [];
  #alive = true;
  #messages = 0;
  #cancelPing: () => void = () => undefined;
  readonly #unread: Message[] = [];
  #unreadBytes = 0;
  #arrived = Promise.withResolvers<void>();

  /** `reads`: the stream takes the reader's messages by {@link messages}. */
  constructor(socket: WebSocket, clock: Clock, { reads }: { reads: boolean }) {
    this.#socket = socket;
    this.#clock = clock;
    socket.on('close', () => this.#end());
    // ws itself closes the socket after an error
    socket.on('error', () => undefined);
    socket.on('ping', () => this.#count());
    socket.on('pong', () => {
      this.#alive = true;
      this.#count();
    });
    socket.on('message', (data, isBinary) => {
      if (reads) {
        this.#keep({ data: bytesOf(data), isBinary });
        return;
      }
      this.#count();
    });
    this.#pingLater();
  }

  /** Aborts when either side closes the stream. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether more bytes wait for the reader than may. */
  get isFull(): boolean {
    return this.#socket.bufferedAmount > limits.bufferedBytes;
  }

  /** Whether the reader has not taken all that was sent. */
  get isBehind(): boolean {
    return this.#socket.bufferedAmount > 0;
  }

  send(frame: object | PreparedFrame): void {
    if (this.#ended.signal.aborted) return;
    const prepared = frame instanceof PreparedFrame ? frame : new PreparedFrame(JSON.stringify(frame));
    writeFrames(this.#socket, [prepared], this.#sent);
  }

  /** Sends bytes as a binary frame. */
  sendBytes(data: Uint8Array): void {
    if (!this.#ended.signal.aborted) this.#socket.send(data, { binary: true }, this.#sent);
  }

  /** What the reader sent, in order, until the stream is closed. While it is not taken, the reader has to wait. */
  async *messages(): AsyncGenerator<Message> {
    while (!this.#ended.signal.aborted) {
      const message = this.#unread.shift();
      if (message === undefined) {
        await this.#arrived.promise;
        this.#arrived = Promise.withResolvers();
        continue;
      }
      this.#unreadBytes -= message.data.length + limits.messageBytes;
      if (this.#socket.isPaused && this.#unreadBytes <= limits.unreadBytes) this.#socket.resume();
      yield message;
    }
  }

  /** Sends many frames in one write. */
  sendAll(frames: readonly PreparedFrame[]): void {
    if (this.#ended.signal.aborted || frames.length === 0) return;
    writeFrames(this.#socket, frames, this.#sent);
  }

  /**
   * Resolves when there is room, or the stream is closed, and never within the same turn of the event loop: a source
   * whose data is all ready would otherwise never let the event of a broken socket in.
   */
  async drained(): Promise<void> {
    await setImmediate();
    if (!this.isFull || this.#ended.signal.aborted) return;
    await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Sends the reason in a last frame and closes with the code. Idempotent. */
  close(code: CloseCode, reason: string): void {
    if (this.#ended.signal.aborted) return;
    this.send({ type: 'end', reason });
    this.#socket.close(code, reason);
    this.#clock.timer(limits.closingMs, () => this.#socket.terminate());
    this.#end();
  }

  /** Closes the stream of a reader that does not take what waits for it. */
  closeSlow(): void {
    this.close(closeCode.tooSlow, 'too slow');
  }

  readonly #sent = (): void => {
    if (this.#waiters.length === 0 || this.isFull) return;
    for (const resolve of this.#waiters.splice(0)) resolve();
  };

  #pingLater(): void {
    this.#cancelPing = this.#clock.timer(limits.pingEveryMs, () => {
      // The pong of a reader that has to wait is not read.
      if (!this.#alive && !this.#socket.isPaused) {
        this.#socket.terminate();
        return;
      }
      this.#alive = false;
      this.#messages = 0;
      this.#socket.ping();
      this.send(ping);
      this.#pingLater();
    });
  }

  #count(): void {
    this.#messages += 1;
    if (this.#messages > limits.messagesPerPing) this.close(closeCode.tooMany, 'too many messages');
  }

  #keep(message: Message): void {
    this.#unread.push(message);
    this.#unreadBytes += message.data.length + limits.messageBytes;
    if (this.#unreadBytes > limits.unreadBytes) this.#socket.pause();
    this.#arrived.resolve();
  }

  #end(): void {
    this.#cancelPing();
    this.#arrived.resolve();
    if (this.#socket.isPaused) this.#socket.resume(); // for the closing handshake
    this.#ended.abort();
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? Buffer.from(data) : data;
}
