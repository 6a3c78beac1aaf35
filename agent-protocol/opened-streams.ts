import { CallError, sendableError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';
import type { Data } from './data-frame.ts';
import { StreamReceivers } from './stream-receivers.ts';
import type { StreamReader, Taking } from './stream-receivers.ts';
import { StreamSenders } from './stream-senders.ts';
import { bounds, timing } from './timing.ts';

/** Messages of the side that opens streams. */
export interface OpenedMessages<P> {
  /** `credit`: bytes of output that the other side may send. */
  open(stream: number, params: P, credit: number, duplex: boolean): void;
  credit(stream: number, bytes: number): void;
  /** This side left the stream, in both directions. */
  end(stream: number): void;
  /** The source of the input failed: no byte of it follows. */
  resetInput(stream: number, code: string, message: string): void;
}

interface Opened {
  output: StreamReader;
  outgoing: AsyncIterable<Uint8Array> | undefined;
  isOutputOver: boolean;
  /** The other side is done with both directions. */
  isClosed: boolean;
  /** Why the source of the input failed. */
  fault: Error | undefined;
  /** Cancels the deadline of the acceptance. */
  accepted: () => void;
  release: () => void;
}

/**
 * The streams of a connection that this side opened: it reads their output, and sends the input of those that are
 * duplex. A stream is over when its output is, and the other side confirmed that it has read all of the input or reads
 * no more of it.
 */
export class OpenedStreams<P> {
  #streams = new Map<number, Opened>();
  #out: OpenedMessages<P>;
  #clock: Clock;
  #over: () => void;
  #senders: StreamSenders;
  #receivers = new StreamReceivers();
  #nextId = 1;

  /** `wake`: {@link next} may have a frame. `over`: a stream is over. */
  constructor(out: OpenedMessages<P>, clock: Clock, { wake, over }: { wake: () => void; over?: () => void }) {
    this.#out = out;
    this.#clock = clock;
    this.#over = over ?? (() => undefined);
    this.#senders = new StreamSenders(wake);
  }

  get ids(): number[] {
    return [...this.#streams.keys()];
  }

  /**
   * Opens a stream and yields its output until the other side ends it. With `outgoing` it is duplex: these bytes are
   * its input. They are first asked for when the stream was accepted, and go on after the end of the output until they
   * end, the other side reads no more of them, or the signal aborts. Leaving the loop early, or the signal, stops both
   * directions.
   *
   * @throws CallError with the other side's code, or `away`, `timeout`, `too_many`; the error of `outgoing`, after the
   *   output; the signal's reason when aborted
   */
  async *open(
    params: P,
    outgoing: AsyncIterable<Uint8Array> | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    signal.throwIfAborted();
    if (this.#streams.size >= bounds.streams)
      throw new CallError('too_many', `At most ${bounds.streams} streams per server at once`);
    const id = this.#nextId++;
    const it = this.#add(id, outgoing, signal);
    this.#out.open(id, params, it.output.window, outgoing !== undefined);
    try {
      yield* it.output;
    } catch (error) {
      throw it.fault ?? error;
    }
    if (it.fault !== undefined) throw it.fault;
  }

  /** `credit`: bytes of input that may be sent. */
  accepted(id: number, credit = 0): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    it.accepted();
    const { outgoing } = it;
    if (outgoing === undefined) return;
    it.outgoing = undefined;
    this.#senders.start(id, credit, () => outgoing, {
      ended: () => undefined,
      failed: (error) => {
        it.fault = error instanceof Error ? error : new Error(String(error));
        const { code, message } = sendableError(error);
        this.#out.resetInput(id, code, message);
      },
    });
  }

  /** Returns false for credit that is not due, see {@link StreamSenders.grant}. */
  grant(id: number, bytes: number): boolean {
    return this.#senders.grant(id, bytes);
  }

  /** Takes in bytes. */
  data(data: Data): Taking {
    this.#streams.get(data.stream)?.accepted();
    return this.#receivers.data(data);
  }

  /** See {@link StreamSenders.next}. */
  next(): Uint8Array | undefined {
    return this.#senders.next();
  }

  /** The other side is done with both directions. */
  ended(id: number): void {
    this.#close(id, undefined);
  }

  reset(id: number, code: string, message: string): void {
    this.#close(id, new CallError(code, message));
  }

  /** The other side reads no more of the input. */
  inputStopped(id: number): void {
    this.#senders.stop(id);
  }

  /** Returns the other side's streams that are not open here. Messages keep their order, so no new stream is among them. */
  unknown(theirs: readonly number[]): number[] {
    return theirs.filter((id) => !this.#streams.has(id));
  }

  close(failure: CallError): void {
    for (const id of this.ids) this.#close(id, failure);
  }

  #add(id: number, outgoing: AsyncIterable<Uint8Array> | undefined, signal: AbortSignal): Opened {
    const output = this.#receivers.open(id, {
      credit: (bytes) => this.#out.credit(id, bytes),
      over: (how) => (how === 'left' ? this.#leave(id) : this.#outputOver(id)),
    });
    const accepted = this.#clock.timer(timing.acceptMs, () => {
      this.#out.end(id);
      this.reset(id, 'timeout', 'The agent did not open the stream in time');
    });
    const abort = (): void => {
      output.abort(signal.reason as Error); // all callers abort with an error
      this.#leave(id);
    };
    signal.addEventListener('abort', abort, { once: true });
    const release = (): void => {
      accepted();
      signal.removeEventListener('abort', abort);
    };
    const isClosed = outgoing === undefined;
    const it: Opened = { output, outgoing, isOutputOver: false, isClosed, fault: undefined, accepted, release };
    this.#streams.set(id, it);
    return it;
  }

  #outputOver(id: number): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    it.isOutputOver = true;
    this.#settle(id, it);
  }

  #close(id: number, failure: CallError | undefined): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    it.isClosed = true;
    it.accepted();
    it.output.finish(failure);
    this.#senders.stop(id);
    this.#settle(id, it);
  }

  #leave(id: number): void {
    const it = this.#streams.get(id);
    if (it === undefined) return;
    this.#out.end(id);
    this.#forget(id, it);
  }

  #settle(id: number, it: Opened): void {
    if (it.isOutputOver && it.isClosed) this.#forget(id, it);
  }

  #forget(id: number, { release }: Opened): void {
    this.#streams.delete(id);
    this.#receivers.forget(id);
    this.#senders.stop(id);
    release();
    this.#over();
  }
}
