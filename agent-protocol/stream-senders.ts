import { CallError, tellable } from './call-error.ts';
import { encodeData, maxPayloadBytes } from './data-frame.ts';
import { bounds } from './timing.ts';

export interface OutgoingMessage {
  accept(stream: number): void;
  reset(stream: number, code: string, message: string): void;
}

interface Sender {
  abort: AbortController;
  credit: number;
  /** Bytes of the source that are not sent yet. When all are sent, the next chunk is pulled. */
  pending: Uint8Array;
  ended: boolean;
  pull: () => void;
}

const nothing = new Uint8Array(0);

/**
 * The sending ends of a connection's streams. Each holds one chunk of its source at a time and pulls the next when that
 * chunk is sent within the reader's credit, so that back-pressure reaches the source.
 *
 * States of a stream: open → (all bytes sent) ended | reset by either side | stopped by the reader. Streams take turns
 * frame by frame.
 */
export class StreamSenders {
  #streams = new Map<number, Sender>();
  #say: OutgoingMessage;
  #wake: () => void;

  constructor(say: OutgoingMessage, wake: () => void) {
    this.#say = say;
    this.#wake = wake;
  }

  get ids(): number[] {
    return [...this.#streams.keys()];
  }

  /** Accepts a stream and starts to pull its source, or resets it. */
  open(id: number, credit: number, source: (signal: AbortSignal) => AsyncIterable<Uint8Array>): void {
    if (this.#streams.has(id)) return;
    if (this.#streams.size >= bounds.streams) {
      this.#say.reset(id, 'too_many', `At most ${bounds.streams} streams per connection`);
      return;
    }
    const sender: Sender = { abort: new AbortController(), credit, pending: nothing, ended: false, pull: () => {} };
    this.#streams.set(id, sender);
    this.#say.accept(id);
    void this.#run(id, sender, source);
  }

  grant(id: number, bytes: number): void {
    const sender = this.#streams.get(id);
    if (sender === undefined || bytes <= 0) return;
    sender.credit += bytes;
    this.#wake();
  }

  /** The reader is gone, or the stream was reset. */
  stop(id: number): void {
    this.#streams.get(id)?.abort.abort(new CallError('stopped', 'The reader left'));
    this.#streams.delete(id);
  }

  /** Returns the next frame of the stream whose turn it is; `undefined`: nothing to send, or no credit for it. */
  next(): Uint8Array | undefined {
    for (const [id, sender] of this.#streams) {
      const size = Math.min(sender.pending.length, sender.credit, maxPayloadBytes);
      const finished = sender.ended && sender.pending.length === 0;
      if (size === 0 && !finished) continue;
      this.#streams.delete(id);
      if (finished) return encodeData({ stream: id, end: true, payload: nothing });
      this.#streams.set(id, sender); // to the end of the line
      const payload = sender.pending.subarray(0, size);
      sender.pending = sender.pending.subarray(size);
      sender.credit -= size;
      if (sender.pending.length === 0) sender.pull();
      return encodeData({ stream: id, end: false, payload });
    }
    return undefined;
  }

  /** Returns the reader's streams that are not open here. Messages keep their order, so no new stream is among them. */
  unknown(theirs: readonly number[]): number[] {
    return theirs.filter((id) => !this.#streams.has(id));
  }

  close(): void {
    for (const id of this.ids) this.stop(id);
  }

  async #run(id: number, sender: Sender, source: (signal: AbortSignal) => AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const chunk of source(sender.abort.signal)) {
        if (sender.abort.signal.aborted) return;
        if (chunk.length === 0) continue;
        const sent = new Promise<void>((resolve) => {
          sender.pull = resolve;
        });
        const aborted = (): void => sender.pull();
        sender.abort.signal.addEventListener('abort', aborted, { once: true });
        sender.pending = chunk;
        this.#wake();
        await sent;
        sender.abort.signal.removeEventListener('abort', aborted);
      }
      sender.ended = true;
      this.#wake();
    } catch (error) {
      if (this.#streams.get(id) !== sender) return;
      this.#streams.delete(id);
      const { code, message } = tellable(error);
      this.#say.reset(id, code, message);
    }
  }
}
