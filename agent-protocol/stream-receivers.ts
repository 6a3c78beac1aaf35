import { CallError } from './call-error.ts';
import type { Clock } from './clock.ts';
import type { Data } from './data-frame.ts';
import { bounds, timing } from './timing.ts';

export interface IncomingMessage<P> {
  open(stream: number, params: P, credit: number): void;
  credit(stream: number, bytes: number): void;
  end(stream: number): void;
}

interface Receiver {
  window: number;
  /** Bytes that the sender may still send. */
  granted: number;
  /** Bytes that the reader took and that were not granted again yet. */
  consumed: number;
  chunks: Uint8Array[];
  /** No byte will follow. `failure` has the error if the stream failed. */
  over: boolean;
  failure: CallError | undefined;
  wake: () => void;
  accepted: () => void;
}

/**
 * The reading ends of a connection's streams. A stream's window is the most bytes that are granted and not yet taken by
 * its reader. It is fixed when the stream opens, out of a budget that keeps the sum of all windows of the connection
 * within `bounds.streamBytes`.
 */
export class StreamReceivers<P> {
  #streams = new Map<number, Receiver>();
  #say: IncomingMessage<P>;
  #clock: Clock;
  #nextId = 1;
  /** Bytes that windows may take beyond the small window that each stream always gets. */
  #extra = bounds.streamBytes - bounds.streams * bounds.smallWindowBytes;

  constructor(say: IncomingMessage<P>, clock: Clock) {
    this.#say = say;
    this.#clock = clock;
  }

  get ids(): number[] {
    return [...this.#streams.keys()];
  }

  /**
   * Opens a stream and yields its bytes until the sender ends it. Leaving the loop, or the signal, stops the sender.
   *
   * @throws CallError with the sender's code, or `away`, `timeout`, `too_many`; the signal's reason when aborted
   */
  async *open(params: P, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    signal.throwIfAborted();
    if (this.#streams.size >= bounds.streams)
      throw new CallError('too_many', `At most ${bounds.streams} streams per server at once`);
    const id = this.#nextId++;
    const it = this.#add(id);
    const abort = (): void => it.wake();
    signal.addEventListener('abort', abort, { once: true });
    try {
      this.#say.open(id, params, it.window);
      for (;;) {
        const chunk = it.chunks.shift();
        signal.throwIfAborted();
        if (chunk !== undefined) {
          yield chunk;
          this.#took(id, it, chunk.length);
        } else if (it.failure !== undefined) throw it.failure;
        else if (it.over) return;
        else
          await new Promise<void>((resolve) => {
            it.wake = resolve;
          });
      }
    } finally {
      signal.removeEventListener('abort', abort);
      it.accepted();
      this.#extra += it.window - bounds.smallWindowBytes;
      if (this.#streams.delete(id) && !it.over) this.#say.end(id);
    }
  }

  accepted(id: number): void {
    this.#streams.get(id)?.accepted();
  }

  /** Takes in bytes. Returns false if the sender broke the protocol: it sent more than it was granted. */
  data({ stream, end, payload }: Data): boolean {
    const it = this.#streams.get(stream);
    if (it === undefined || it.over) return true; // sent before the sender learned that the reader left
    if (payload.length > it.granted) return false;
    it.granted -= payload.length;
    if (payload.length > 0) keep(it, payload);
    if (end) it.over = true;
    it.accepted();
    it.wake();
    return true;
  }

  ended(id: number): void {
    this.#fail(id, undefined);
  }

  reset(id: number, code: string, message: string): void {
    this.#fail(id, new CallError(code, message));
  }

  /** Returns the sender's streams that are not open here. Messages keep their order, so no new stream is among them. */
  unknown(theirs: readonly number[]): number[] {
    return theirs.filter((id) => !this.#streams.has(id));
  }

  close(failure: CallError): void {
    for (const id of this.ids) this.#fail(id, failure);
  }

  #add(id: number): Receiver {
    const bonus = Math.min(this.#extra, bounds.windowBytes - bounds.smallWindowBytes);
    this.#extra -= bonus;
    const window = bounds.smallWindowBytes + bonus;
    const accepted = this.#clock.timer(timing.acceptMs, () =>
      this.reset(id, 'timeout', 'The agent did not open the stream in time'),
    );
    const it: Receiver = {
      window,
      granted: window,
      consumed: 0,
      chunks: [],
      over: false,
      failure: undefined,
      wake: () => {},
      accepted,
    };
    this.#streams.set(id, it);
    return it;
  }

  #took(id: number, it: Receiver, bytes: number): void {
    it.consumed += bytes;
    if (it.over || it.consumed * 2 < it.window) return;
    it.granted += it.consumed;
    this.#say.credit(id, it.consumed);
    it.consumed = 0;
  }

  #fail(id: number, failure: CallError | undefined): void {
    const it = this.#streams.get(id);
    if (it === undefined || it.over) return;
    it.over = true;
    it.failure = failure;
    it.accepted();
    it.wake();
  }
}

/**
 * Copies the payload, since it is a view of a larger buffer of the socket. Joins chunks, since a tiny one costs more
 * memory than its bytes.
 */
function keep(it: Receiver, payload: Uint8Array): void {
  it.chunks.push(Uint8Array.from(payload));
  if (it.chunks.length > 64) it.chunks = [Buffer.concat(it.chunks)];
}
