import { encodeData, maxPayloadBytes } from './data-frame.ts';
import { bounds } from './timing.ts';

/** Called at most once each, and neither after {@link StreamSenders.stop}. */
export interface SenderEvents {
  /** The frame with the end of the stream has left. */
  ended(): void;
  /** The source threw. All bytes that it yielded before have left. */
  failed(error: unknown): void;
}

interface Sender {
  on: SenderEvents;
  isStopped: boolean;
  /** Leaves the source, also while it waits for its next chunk, if it can be left then. */
  leave: () => void;
  credit: number;
  /** Bytes sent for which the other side has not sent a message of credit yet. */
  unanswered: number;
  /** Bytes of the source that are not sent yet. When all are sent, the next chunk is pulled. */
  pending: Uint8Array;
  ended: boolean;
  pull: () => void;
}

const nothing = new Uint8Array(0);

/** Receivers return credit for at least this number of bytes at once. */
const leastCreditBytes = bounds.smallWindowBytes / 2;

/**
 * The sending ends of a connection's streams. Each holds one chunk of its source at a time and pulls the next when that
 * chunk is sent within the reader's credit, so that back-pressure reaches the source.
 *
 * States of a stream: open → (all bytes sent) ended | failed | stopped. Streams take turns frame by frame.
 */
export class StreamSenders {
  #streams = new Map<number, Sender>();
  #wake: () => void;

  /** `wake`: {@link next} may have a frame. */
  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Starts to pull the source. An error of `source` itself counts as an error of what it returns. */
  start(id: number, credit: number, source: () => AsyncIterable<Uint8Array>, on: SenderEvents): void {
    const sender: Sender = {
      on,
      isStopped: false,
      leave: () => {},
      credit,
      unanswered: 0,
      pending: nothing,
      ended: false,
      pull: () => {},
    };
    this.#streams.set(id, sender);
    void this.#run(id, sender, source);
  }

  /** Returns false for credit that is not due: a reader sends one message per 16 KiB or more that it took. */
  grant(id: number, bytes: number): boolean {
    const sender = this.#streams.get(id);
    if (sender === undefined || bytes <= 0) return false;
    const isDue = sender.unanswered >= leastCreditBytes;
    if (isDue) sender.unanswered -= leastCreditBytes;
    sender.credit += bytes;
    this.#wake();
    return isDue;
  }

  /** Sends nothing more of the stream and leaves its source. */
  stop(id: number): void {
    const sender = this.#streams.get(id);
    if (sender === undefined) return;
    this.#streams.delete(id);
    sender.isStopped = true;
    sender.leave();
    sender.pull();
  }

  /** Returns the next frame of the stream whose turn it is; `undefined`: nothing to send, or no credit for it. */
  next(): Uint8Array | undefined {
    for (const [id, sender] of this.#streams) {
      const size = Math.min(sender.pending.length, sender.credit, maxPayloadBytes);
      const finished = sender.ended && sender.pending.length === 0;
      if (size === 0 && !finished) continue;
      this.#streams.delete(id);
      if (finished) {
        queueMicrotask(() => sender.on.ended()); // the caller sends the frame first
        return encodeData({ stream: id, end: true, payload: nothing });
      }
      this.#streams.set(id, sender); // to the end of the line
      const payload = sender.pending.subarray(0, size);
      sender.pending = sender.pending.subarray(size);
      sender.credit -= size;
      sender.unanswered += size;
      if (sender.pending.length === 0) sender.pull();
      return encodeData({ stream: id, end: false, payload });
    }
    return undefined;
  }

  async #run(id: number, sender: Sender, source: () => AsyncIterable<Uint8Array>): Promise<void> {
    try {
      const chunks = source()[Symbol.asyncIterator]();
      sender.leave = () => void chunks.return?.().catch(() => undefined);
      for (;;) {
        const chunk = await chunks.next();
        if (chunk.done === true || sender.isStopped) break;
        if (chunk.value.length > 0 && !(await this.#sent(sender, chunk.value))) return;
      }
      sender.ended = true;
      this.#wake();
    } catch (error) {
      if (sender.isStopped) return;
      this.#streams.delete(id);
      sender.on.failed(error);
    }
  }

  /** Resolves with true when the chunk was sent, with false when the stream was stopped. */
  async #sent(sender: Sender, chunk: Uint8Array): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>();
    sender.pull = resolve;
    sender.pending = chunk;
    this.#wake();
    await promise;
    return !sender.isStopped;
  }
}
