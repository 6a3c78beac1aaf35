import type { LogLine } from '../../agent-protocol/logs.ts';
import { logFrame } from './log-frames.ts';
import type { LogSource } from './log-frames.ts';
import { PreparedFrame } from './prepared-frame.ts';

/** What a line takes besides its text: its object, the strings of its fields, and the rest of its frame. */
const lineBytes = 1024;
/** A text is held as a string, in the frame, and in the bytes on the wire. */
const copies = 3;

/** Lines that arrived together, with their frames: built once per source for all readers. */
export class SharedLogChunk {
  readonly lines: readonly LogLine[];
  /** Approximate size in memory, with its frames. */
  readonly bytes: number;
  readonly #frames = new Map<string, readonly PreparedFrame[]>();

  constructor(lines: readonly LogLine[]) {
    this.lines = lines;
    this.bytes = lines.reduce((sum, { message }) => sum + lineBytes + copies * message.length, 0);
  }

  /** One frame per line, in the same order. `resumable`: a reader can resume after each of them. */
  frames(source: LogSource, form: 'resumable' | 'merged'): readonly PreparedFrame[] {
    const key = `${form} ${source.kind} ${source.id} ${source.name}`;
    let frames = this.#frames.get(key);
    if (frames === undefined) {
      frames = this.lines.map((line) => new PreparedFrame(JSON.stringify(logFrame(line, source, form))));
      this.#frames.set(key, frames);
    }
    return frames;
  }
}
