import type { Data } from './data-frame.ts';
import { bounds } from './timing.ts';

/**
 * What became of bytes of the other side. `dropped`: nothing was taken, as the frame was empty, or it was sent before the
 * sender learned that the reader left. `excess`: the sender broke the protocol, as it sent more than it was granted.
 */
export type Taking = 'taken' | 'dropped' | 'excess';

export interface ReaderEvents {
  /** The other side may send this number of bytes more. */
  credit(bytes: number): void;
  /** Called once. `read`: the reader has taken all bytes and the end, or the failure. `left`: it left before the end. */
  over(how: 'read' | 'left'): void;
}

/**
 * The reading end of one stream. It holds at most its window: the bytes that are granted and not yet taken, in buffers
 * of at most twice their size. A chunk counts as taken when the reader asks for the next one.
 */
export class StreamReader implements AsyncIterableIterator<Uint8Array> {
  readonly window: number;
  readonly #on: ReaderEvents;
  /** Bytes that the sender may still send. */
  #granted: number;
  /** Bytes of the chunk that the reader has now. */
  #current = 0;
  /** Bytes that the reader took and that were not granted again yet. */
  #consumed = 0;
  #chunks: Uint8Array[] = [];
  /** No byte will follow. `failure` has the error if the stream failed. */
  #end: { failure: Error | undefined } | undefined;
  #isOver = false;
  #isRead = false;
  #waiting: (() => void)[] = [];

  constructor(window: number, on: ReaderEvents) {
    this.window = window;
    this.#granted = window;
    this.#on = on;
  }

  /** Whether the reader has begun to read. */
  get isRead(): boolean {
    return this.#isRead;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#isRead = true;
    this.#took();
    for (;;) {
      if (this.#isOver) return { done: true, value: undefined };
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.#current = chunk.length;
        return { done: false, value: chunk };
      }
      if (this.#end !== undefined) {
        const { failure } = this.#end;
        this.#finish('read');
        if (failure !== undefined) throw failure;
      } else {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#waiting.push(resolve);
        await promise;
      }
    }
  }

  /** Leaves the stream. It takes effect at once, also while the reader waits for bytes. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (!this.#isOver) this.#finish(this.#end === undefined ? 'left' : 'read');
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Takes in bytes. */
  take({ payload, end }: Pick<Data, 'payload' | 'end'>): Taking {
    if (this.#end !== undefined || this.#isOver) return 'dropped';
    if (payload.length > this.#granted) return 'excess';
    this.#granted -= payload.length;
    if (payload.length > 0) this.#keep(payload);
    if (end) this.#end = { failure: undefined };
    this.#wake();
    return payload.length > 0 || end ? 'taken' : 'dropped';
  }

  /** No byte will follow: the reader gets what has arrived, and then the failure. Without effect after an end. */
  finish(failure?: Error): void {
    this.#end ??= { failure };
    this.#wake();
  }

  /** Ends the stream as {@link finish} does, but the reader gets the failure at once. */
  abort(failure: Error): void {
    this.#chunks = [];
    this.#end = { failure };
    this.#wake();
  }

  /**
   * Copies a payload that is the smaller part of a buffer of the socket, which it would keep in memory. Joins chunks,
   * since a tiny one costs more memory than its bytes.
   */
  #keep(payload: Uint8Array): void {
    this.#chunks.push(payload.length * 2 < payload.buffer.byteLength ? Uint8Array.from(payload) : payload);
    if (this.#chunks.length > 64) this.#chunks = [Buffer.concat(this.#chunks)];
  }

  #took(): void {
    this.#consumed += this.#current;
    this.#current = 0;
    if (this.#end !== undefined || this.#isOver || this.#consumed * 2 < this.window) return;
    const bytes = this.#consumed;
    this.#granted += bytes;
    this.#consumed = 0;
    this.#on.credit(bytes);
  }

  #finish(how: 'read' | 'left'): void {
    this.#isOver = true;
    this.#chunks = [];
    this.#wake();
    this.#on.over(how);
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/**
 * The reading ends of a connection's streams. The window of a stream is fixed when it opens, out of a budget that keeps
 * the sum of all windows of the connection within `bounds.streamBytes`. The caller opens at most `bounds.streams`.
 */
export class StreamReceivers {
  #readers = new Map<number, StreamReader>();
  /** Bytes that windows may take beyond the small window that each stream always gets. */
  #extra = bounds.streamBytes - bounds.streams * bounds.smallWindowBytes;

  /** Opens the reading end of a stream. Its window is the sender's first credit. */
  open(id: number, on: ReaderEvents): StreamReader {
    const bonus = Math.min(this.#extra, bounds.windowBytes - bounds.smallWindowBytes);
    this.#extra -= bonus;
    const reader = new StreamReader(bounds.smallWindowBytes + bonus, {
      credit: (bytes) => on.credit(bytes),
      over: (how) => {
        this.forget(id);
        on.over(how);
      },
    });
    this.#readers.set(id, reader);
    return reader;
  }

  /** Takes in bytes. */
  data({ stream, ...data }: Data): Taking {
    return this.#readers.get(stream)?.take(data) ?? 'dropped';
  }

  /** Takes in nothing more of the stream, and frees its window. */
  forget(id: number): void {
    const reader = this.#readers.get(id);
    if (reader === undefined) return;
    this.#readers.delete(id);
    this.#extra += reader.window - bounds.smallWindowBytes;
  }
}
