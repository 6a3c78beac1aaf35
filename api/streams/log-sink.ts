import type { LogLine } from '../../agent-protocol/logs.ts';
import type { Channel } from './channel.ts';
import type { SharedLogChunk } from './log-chunk.ts';
import type { LogSource } from './log-frames.ts';

/** Where a tail sends its lines. */
export interface LogSink {
  /** Whether as much waits as may. */
  readonly isFull: boolean;
  /** Lines that the server lost, or `uncounted`. */
  lost(count: number): void;
  /** Whether the tail reads stored lines now, so that further lines follow those that it sent. */
  reading(isReading: boolean): void;
  /** Sends those lines of a chunk that match, at once: a tail that waits for its reader holds no lines. */
  send(chunk: SharedLogChunk, matches: (line: LogLine) => boolean): void;
  /** Resolves when there is room for more, never in the same turn of the event loop. */
  drained(): Promise<void>;
}

/** Sends the lines of one source to a channel. */
export function channelSink(channel: Channel, source: LogSource): LogSink {
  return {
    get isFull() {
      return channel.isFull;
    },
    lost: (count) => channel.send({ type: 'gap', dropped: count }),
    reading: () => undefined,
    send(chunk, matches) {
      const wanted = new Set(chunk.lines.flatMap((line, at) => (matches(line) ? [at] : [])));
      channel.sendAll(chunk.frames(source, 'resumable').filter((_, at) => wanted.has(at)));
    },
    drained: () => channel.drained(),
  };
}
