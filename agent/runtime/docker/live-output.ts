import { wait, type Clock } from '../../../time/clock.ts';
import type { OutputChunk } from '../runtime.ts';

/** Reading pauses while more bytes are held: then the engine buffers, and in the end the container waits. */
const maxHeldBytes = 8 * 1024 * 1024;

/** Reads a live stream from its beginning while its consumer still reads the record. */
export class LiveOutput {
  readonly #clock: Clock;
  #held: OutputChunk[] = [];
  #bytes = 0;
  readonly #reading: Promise<void>;
  readonly #ended = new AbortController();
  #changed = Promise.withResolvers<void>();

  constructor(source: AsyncIterable<OutputChunk>, clock: Clock) {
    this.#clock = clock;
    this.#reading = this.#read(source);
    this.#reading.catch(() => undefined); // `drain` throws the error
  }

  /** Chunks that arrived and were not drained. */
  get held(): readonly OutputChunk[] {
    return this.#held;
  }

  /** Resolves after `ms` milliseconds, or earlier at the end of the stream. */
  async settle(ms: number): Promise<void> {
    await wait(this.#clock, ms, this.#ended.signal).catch(() => undefined); // rejects at the end of the stream only
  }

  /** Yields all held chunks and all that follow; with `heldOnly` it ends where it would have to wait. */
  async *drain(heldOnly: boolean): AsyncGenerator<OutputChunk> {
    for (;;) {
      const batch = this.#held;
      this.#held = [];
      this.#bytes = 0;
      this.#change();
      yield* batch;
      if (this.#held.length > 0) continue;
      if (this.#ended.signal.aborted) break;
      if (heldOnly) return;
      await this.#changed.promise;
    }
    await this.#reading;
  }

  async #read(source: AsyncIterable<OutputChunk>): Promise<void> {
    try {
      for await (const { stream, data } of source) {
        this.#held.push({ stream, data });
        this.#bytes += data.length;
        this.#change();
        while (this.#bytes > maxHeldBytes) await this.#changed.promise;
      }
    } finally {
      this.#ended.abort(new Error('The stream ended'));
      this.#change();
    }
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
