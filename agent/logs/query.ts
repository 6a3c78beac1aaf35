import type { LogChunk, LogFollow, LogLine, LogPage, LogQuery } from '../../agent-protocol/logs.ts';
import type { Matcher } from './matcher.ts';
import { matcher } from './matcher.ts';
import { disorderMs, toLogLine } from './record.ts';
import type { Cursor, WorkloadLog } from './workload-log.ts';

/** Most bytes of one answer: it is sent in one frame. */
export const pageBytes = 700 * 1024;
/** Target size of a chunk of a stream, well below `maxLogChunkBytes`. */
const chunkBytes = 192 * 1024;
/** Most bytes that are searched for one answer; beyond it the answer is `truncated`. */
export const scannedBytesMost = 256 * 1024 * 1024;

/** Reads one page of a workload's lines. */
export async function readPage(log: WorkloadLog, query: LogQuery, signal: AbortSignal): Promise<LogPage> {
  await log.flushed();
  const match = matcher(query);
  if (query.after_seq === undefined) {
    const { lines, truncated } = await lastLines(log, match, query.tail, signal);
    return { lines, truncated };
  }
  return linesAfter(log, match, query.after_seq, query.tail, signal);
}

/**
 * Yields stored lines, then live ones, each once and in order. The reader sets the pace: a slow reader reads from disk,
 * and lines that retention removed before it read them are counted in `dropped`. Ends when the signal aborts, when the log
 * is closed, or when `ended` returns true and all lines are read.
 */
export async function* followLines(
  log: WorkloadLog,
  follow: LogFollow,
  ended: () => boolean,
  signal: AbortSignal,
): AsyncGenerator<LogChunk> {
  const match = matcher(follow);
  let seen = follow.after_seq ?? 0;
  if (follow.after_seq === undefined) {
    await log.flushed();
    seen = log.lastSeq;
    if (follow.tail > 0) {
      const upTo: Matcher = { ...match, matches: (line) => line.seq <= seen && match.matches(line) };
      const { lines } = await lastLines(log, upTo, follow.tail, signal);
      if (lines.length > 0) yield* inChunks(lines);
    }
  }
  let cursor: Cursor = await log.seek(seen);
  for (;;) {
    if (signal.aborted || log.isClosed) return;
    const mayEnd = ended();
    const read = await log.forward(cursor);
    cursor = read.cursor;
    if (read.lines.length === 0) {
      // `ended` was called before the read, so that no line written before the end is left out.
      if (mayEnd) {
        yield { lines: [], end: true };
        return;
      }
      // It may have ended during the read, when this reader did not wait yet and could not be woken.
      if (!ended()) await log.reached(Math.max(seen, log.lastSeq), signal);
      continue;
    }
    const last = read.lines.at(-1)?.seq ?? seen;
    const dropped = isWhole(log, match) ? 0 : last - seen - read.lines.length;
    const lines = read.lines.filter((line) => match.matches(line)).map(toLogLine);
    seen = last;
    if (dropped > 0) yield { lines: [], dropped };
    if (lines.length > 0) yield* inChunks(lines);
  }
}

/** Whether all lines that match are kept: no line that is missing would have matched. */
function isWhole(log: WorkloadLog, { isOfKept }: Matcher): boolean {
  return isOfKept && log.keepsLines;
}

async function lastLines(
  log: WorkloadLog,
  match: Matcher,
  count: number,
  signal: AbortSignal,
): Promise<{ lines: LogLine[]; truncated: boolean }> {
  const found: LogLine[] = [];
  let bytes = 0;
  let scanned = 0;
  const blocks = log.backward((segment, following) => {
    const begins = following === undefined ? segment.writtenAt : Math.max(segment.writtenAt, following.writtenAt);
    return begins + disorderMs >= match.since;
  });
  for await (const block of blocks) {
    for (const line of block.toReversed()) {
      scanned += line.message.length;
      if (!match.matches(line)) continue;
      const shown = toLogLine(line);
      bytes += JSON.stringify(shown).length + 1;
      if (bytes > pageBytes) return { lines: found.toReversed(), truncated: true };
      found.push(shown);
      if (found.length === count) return { lines: found.toReversed(), truncated: false };
    }
    const oldest = block[0];
    if (oldest !== undefined && oldest.at + disorderMs < match.since) break;
    if (scanned > scannedBytesMost || signal.aborted) return { lines: found.toReversed(), truncated: true };
  }
  return { lines: found.toReversed(), truncated: false };
}

async function linesAfter(
  log: WorkloadLog,
  match: Matcher,
  afterSeq: number,
  most: number,
  signal: AbortSignal,
): Promise<LogPage> {
  const lines: LogLine[] = [];
  let bytes = 0;
  let scanned = 0;
  let seen = afterSeq;
  /** How many lines were read up to `seen`. */
  let count = 0;
  let cursor = await log.seek(afterSeq);
  const page = (limit: Partial<Pick<LogPage, 'next_seq' | 'truncated'>> = {}): LogPage => {
    const lost = isWhole(log, match) ? 0 : Math.max(0, seen - afterSeq - count);
    return { lines, truncated: lost > 0, end_seq: seen, lost_lines: lost, ...limit };
  };
  for (;;) {
    const read = await log.forward(cursor);
    cursor = read.cursor;
    if (read.lines.length === 0) {
      // Also the newest line may have been removed.
      seen = Math.max(seen, log.firstSeq - 1);
      return page();
    }
    for (const line of read.lines) {
      scanned += line.message.length;
      if (match.matches(line)) {
        const shown = toLogLine(line);
        bytes += JSON.stringify(shown).length + 1;
        if (bytes > pageBytes) return page({ next_seq: seen, truncated: true });
        lines.push(shown);
      }
      seen = line.seq;
      count += 1;
      if (lines.length === most) return page(seen < log.lastSeq ? { next_seq: seen } : {});
    }
    if (scanned > scannedBytesMost || signal.aborted) return page({ next_seq: seen, truncated: true });
  }
}

function* inChunks(lines: readonly LogLine[]): Generator<LogChunk> {
  let from = 0;
  let bytes = 0;
  for (const [index, line] of lines.entries()) {
    bytes += line.message.length + 160;
    if (bytes < chunkBytes) continue;
    yield { lines: lines.slice(from, index + 1) };
    from = index + 1;
    bytes = 0;
  }
  if (from < lines.length) yield { lines: lines.slice(from) };
}
