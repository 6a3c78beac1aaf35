import { setImmediate } from 'node:timers/promises';
import type { LogLine } from '../../agent-protocol/logs.ts';
import type { Clock } from '../../time/clock.ts';
import type { Channel } from './channel.ts';
import type { SharedLogChunk } from './log-chunk.ts';
import type { LogSource } from './log-frames.ts';
import type { LogSink } from './log-sink.ts';
import { PreparedFrame } from './prepared-frame.ts';

const limits = {
  /** A line waits so long for earlier lines of sources from which none waits. */
  holdMs: 300,
  /** The same, for sources whose stored lines are being read and that have sent none for less than this time. */
  readingMs: 2000,
  /** A source sends more when fewer of its lines wait. */
  waitingLines: 200,
  /** Most lines of one write. */
  batchLines: 500,
} as const;

type Outlet = Pick<Channel, 'signal' | 'send' | 'sendAll' | 'drained'>;

/** A line that waits for its turn. */
interface Held {
  /** Its time, but not before that of the line before it of the same source, and not after its arrival. */
  time: number;
  seq: number;
  /** Monotonic time of its arrival. */
  arrived: number;
  frame: PreparedFrame;
}

/** One source of a merge. */
export interface MergedSource {
  readonly sink: LogSink;
  /** Number of the last line that was sent, or after which the lines begin. */
  readonly position: number | undefined;
  beginAt(position: number): void;
  /** Ends the source. Its lines that wait are not sent. */
  leave(): void;
}

/**
 * Sends the lines of several sources to a channel in the order of their times. A line waits for 300 ms for earlier lines
 * of sources that are quiet, and up to 2 s for stored lines that are being read. A line that comes later than that is sent
 * at once, after lines with later times. Lines of one source stay in their order. What waits is bounded: a source whose
 * lines wait is not read.
 */
export class LogMerge {
  readonly #channel: Outlet;
  readonly #clock: Clock;
  readonly #sources = new Set<Source>();
  #wake = Promise.withResolvers<void>();

  constructor(channel: Outlet, clock: Clock) {
    this.#channel = channel;
    this.#clock = clock;
  }

  add(source: LogSource): MergedSource {
    const added = new Source(source, this.#channel, this.#clock, () => this.#wake.resolve());
    this.#sources.add(added);
    return {
      sink: added,
      get position() {
        return added.position;
      },
      beginAt: (position) => {
        added.position ??= position;
      },
      leave: () => {
        this.#sources.delete(added);
        added.end();
        this.#wake.resolve();
      },
    };
  }

  /** Sends lines until the channel is closed. `cursor`: the frame that follows each write. */
  async run(cursor: () => object): Promise<void> {
    const { signal } = this.#channel;
    const wake = (): void => this.#wake.resolve();
    signal.addEventListener('abort', wake, { once: true });
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      this.#wake = Promise.withResolvers();
      const { frames, waitMs } = this.#due();
      if (frames.length > 0) {
        this.#channel.sendAll([...frames, new PreparedFrame(JSON.stringify(cursor()))]);
        await this.#channel.drained();
        continue;
      }
      const cancel = waitMs === undefined ? () => undefined : this.#clock.timer(waitMs, wake);
      await this.#wake.promise;
      cancel();
    }
    for (const source of this.#sources) source.end();
  }

  /** Takes the lines whose turn it is; if there are none, returns how long to wait for the next one. */
  #due(): { frames: PreparedFrame[]; waitMs?: number } {
    const now = this.#clock.monotonic();
    const frames: PreparedFrame[] = [];
    while (frames.length < limits.batchLines) {
      let next: Source | undefined;
      let holdMs = 0;
      let until = now;
      for (const source of this.#sources) {
        const { first } = source;
        if (first === undefined) {
          holdMs = limits.holdMs;
          if (source.readingSince !== undefined) until = Math.max(until, source.readingSince + limits.readingMs);
        } else if (next?.first === undefined || first.time < next.first.time) next = source;
      }
      if (next?.first === undefined) return { frames };
      const waitMs = Math.max(next.first.arrived + holdMs, until) - now;
      if (waitMs > 0) return { frames, waitMs };
      frames.push(next.shift());
    }
    return { frames };
  }
}

class Source implements LogSink {
  readonly #source: LogSource;
  readonly #channel: Outlet;
  readonly #clock: Clock;
  readonly #changed: () => void;
  #held: Held[] = [];
  /** Index of the first line that waits. */
  #next = 0;
  #time = 0;
  #ended = false;
  #room = Promise.withResolvers<void>();
  position: number | undefined;
  /** Monotonic time of the last line that it sent while it reads stored lines, or of the begin of that. */
  readingSince: number | undefined;

  constructor(source: LogSource, channel: Outlet, clock: Clock, changed: () => void) {
    this.#source = source;
    this.#channel = channel;
    this.#clock = clock;
    this.#changed = changed;
    this.readingSince = clock.monotonic();
  }

  get first(): Held | undefined {
    return this.#held[this.#next];
  }

  get isFull(): boolean {
    return this.#waiting >= limits.waitingLines;
  }

  get #waiting(): number {
    return this.#held.length - this.#next;
  }

  lost(count: number): void {
    if (!this.#ended) this.#channel.send({ type: 'gap', dropped: count, source: this.#source });
  }

  reading(isReading: boolean): void {
    if (isReading) this.readingSince ??= this.#clock.monotonic();
    else this.readingSince = undefined;
    this.#changed();
  }

  send(chunk: SharedLogChunk, matches: (line: LogLine) => boolean): void {
    const now = this.#clock.now().getTime();
    const arrived = this.#clock.monotonic();
    if (this.readingSince !== undefined) this.readingSince = arrived;
    const frames = chunk.frames(this.#source, 'merged');
    for (const [index, line] of chunk.lines.entries()) {
      const frame = frames[index];
      if (frame === undefined || this.#ended || !matches(line)) continue;
      this.#time = Math.max(this.#time, Math.min(Date.parse(line.timestamp), now));
      this.#held.push({ time: this.#time, seq: line.seq, arrived, frame });
    }
    this.#changed();
  }

  async drained(): Promise<void> {
    await setImmediate();
    while (this.isFull && !this.#ended) {
      this.#room = Promise.withResolvers();
      await this.#room.promise;
    }
  }

  /** @throws Error if no line waits */
  shift(): PreparedFrame {
    const { first } = this;
    if (first === undefined) throw new Error('No line waits');
    this.#next += 1;
    this.position = first.seq;
    if (this.#next === this.#held.length || this.#next >= limits.batchLines) {
      this.#held = this.#held.slice(this.#next);
      this.#next = 0;
    }
    if (!this.isFull) this.#room.resolve();
    return first.frame;
  }

  end(): void {
    this.#ended = true;
    this.#held = [];
    this.#next = 0;
    this.#room.resolve();
  }
}
