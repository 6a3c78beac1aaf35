import { CallError, sendableError } from './call-error.ts';
import type { Data } from './data-frame.ts';
import { StreamReceivers } from './stream-receivers.ts';
import type { StreamReader } from './stream-receivers.ts';
import { StreamSenders } from './stream-senders.ts';
import { bounds } from './timing.ts';

/** Messages of the side that serves streams. */
export interface ServedMessages {
  /** `credit`: bytes of input that the other side may send; only of a duplex stream. */
  accept(stream: number, credit: number | undefined): void;
  credit(stream: number, bytes: number): void;
  /** Both directions of a duplex stream are over. */
  end(stream: number): void;
  /** The stream is over; with `input` only its input, of which no byte is read any more. */
  reset(stream: number, code: string, message: string, only?: 'input'): void;
}

/** Serves one stream: returns its output. `incoming`: its input, empty unless the stream is duplex. */
export type Serve = (incoming: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<Uint8Array>;

interface Served {
  stop: AbortController;
  input: StreamReader | undefined;
  isInputOver: boolean;
  isOutputOver: boolean;
}

/**
 * The streams of a connection that the other side opened. Output goes out under the credit of the other side. A duplex
 * stream has input, too, under credit of this side. Each direction ends by itself: a stream is over when both are. Input
 * that is not being read when the output ends is over as well.
 *
 * The signal of a stream aborts when the other side leaves it, when it fails, or when the connection is lost.
 */
export class ServedStreams {
  #streams = new Map<number, Served>();
  #out: ServedMessages;
  #senders: StreamSenders;
  #receivers = new StreamReceivers();

  /** `wake`: {@link next} may have a frame. */
  constructor(out: ServedMessages, wake: () => void) {
    this.#out = out;
    this.#senders = new StreamSenders(wake);
  }

  get ids(): number[] {
    return [...this.#streams.keys()];
  }

  /** Accepts a stream and starts to pull its output, or resets it. */
  open(id: number, { credit, duplex }: { credit: number; duplex: boolean }, serve: Serve): void {
    if (this.#streams.has(id)) return;
    if (this.#streams.size >= bounds.streams) {
      this.#out.reset(id, 'too_many', `At most ${bounds.streams} streams per connection`);
      return;
    }
    const input = duplex ? this.#input(id) : undefined;
    const stop = new AbortController();
    this.#streams.set(id, { stop, input, isInputOver: !duplex, isOutputOver: false });
    this.#out.accept(id, input?.window);
    this.#senders.start(id, credit, () => serve(input ?? noBytes(), stop.signal), {
      ended: () => this.#outputEnded(id),
      failed: (error) => this.#failed(id, error),
    });
  }

  /** Returns false for credit that is not due, see {@link StreamSenders.grant}. */
  grant(id: number, bytes: number): boolean {
    return this.#senders.grant(id, bytes);
  }

  /** Takes in bytes. Returns false if the other side broke the protocol: it sent more than it was granted. */
  data(data: Data): boolean {
    return this.#receivers.data(data) !== 'excess';
  }

  /** See {@link StreamSenders.next}. */
  next(): Uint8Array | undefined {
    return this.#senders.next();
  }

  /** The other side could not send all of its input: the reader gets the failure after what has arrived. */
  inputFailed(id: number, code: string, message: string): void {
    this.#streams.get(id)?.input?.finish(new CallError(code, message));
  }

  /** The other side left or reset the stream. */
  stop(id: number): void {
    this.#drop(id, new CallError('stopped', 'The reader left'));
  }

  /** Returns the other side's streams that are not open here. Messages keep their order, so no new stream is among them. */
  unknown(theirs: readonly number[]): number[] {
    return theirs.filter((id) => !this.#streams.has(id));
  }

  /** The connection is lost. */
  close(): void {
    for (const id of this.ids) this.#drop(id, new CallError('away', 'The connection is gone'));
  }

  #input(id: number): StreamReader {
    return this.#receivers.open(id, {
      credit: (bytes) => this.#out.credit(id, bytes),
      over: (how) => this.#inputOver(id, how),
    });
  }

  #inputOver(id: number, how: 'read' | 'left'): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    it.isInputOver = true;
    if (how === 'left' && !it.isOutputOver) this.#out.reset(id, 'stopped', 'The input is not read any more', 'input');
    this.#settle(id, it);
  }

  #outputEnded(id: number): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    it.isOutputOver = true;
    if (it.input?.isRead === false) void it.input.return();
    this.#settle(id, it);
  }

  #settle(id: number, { input, isInputOver, isOutputOver }: Served): void {
    if (!isInputOver || !isOutputOver || !this.#streams.delete(id)) return;
    if (input !== undefined) this.#out.end(id);
  }

  #failed(id: number, error: unknown): void {
    const { code, message } = sendableError(error);
    this.#drop(id, new CallError(code, message));
    this.#out.reset(id, code, message);
  }

  #drop(id: number, why: CallError): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    this.#streams.delete(id);
    this.#receivers.forget(id);
    it.stop.abort(why);
    it.input?.abort(why);
    this.#senders.stop(id);
  }
}

async function* noBytes(): AsyncGenerator<Uint8Array> {
  // The stream is not duplex.
}
