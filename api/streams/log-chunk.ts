import type { LogLine } from '../../agent-protocol/logs.ts';
import { logFrame } from './log-frames.ts';
import type { LogSource } from './log-frames.ts';
import { PreparedFrame } from './prepared-frame.ts';

/** Lines that arrived together, with their frames: built once per source for all readers. */
export class SharedLogChunk {
  readonly lines: readonly LogLine[];
  readonly #frames = new Map<string, readonly PreparedFrame[]>();

  constructor(lines: readonly LogLine[]) {
    this.lines = lines;
  }

  /** One frame per line, in the same order. */
  frames(source: LogSource): readonly PreparedFrame[] {
    const key = `${source.kind} ${source.id} ${source.name}`;
    let frames = this.#frames.get(key);
    if (frames === undefined) {
      frames = this.lines.map((line) => new PreparedFrame(JSON.stringify(logFrame(line, source))));
      this.#frames.set(key, frames);
    }
    return frames;
  }
}
