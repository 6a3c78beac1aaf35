import type { OutputChunk } from '../runtime.ts';

/** A line of the engine's record; its time has nanoseconds. */
export interface RecordedChunk extends OutputChunk {
  at: string;
}

/**
 * Returns the recorded chunks that came before the live ones. `live` begins at about the moment at which `recorded`
 * ends, so that the end of the record may repeat the beginning of the live output. The overlap is found by content,
 * separately for each of the two streams; the longest possible overlap counts.
 */
export function beforeLive(recorded: readonly RecordedChunk[], live: readonly OutputChunk[]): RecordedChunk[] {
  const cut = { stdout: overlap(recorded, live, 'stdout'), stderr: overlap(recorded, live, 'stderr') };
  const left = { stdout: cut.stdout, stderr: cut.stderr };
  return recorded.filter(({ stream }) => {
    left[stream] -= 1;
    return left[stream] >= 0;
  });
}

/** Returns how many recorded chunks of `stream` come before the first live byte. */
function overlap(
  recorded: readonly RecordedChunk[],
  live: readonly OutputChunk[],
  stream: OutputChunk['stream'],
): number {
  const lines = recorded.filter((one) => one.stream === stream).map((one) => Buffer.from(one.data));
  const fresh = Buffer.concat(live.filter((one) => one.stream === stream).map((one) => one.data));
  if (fresh.length === 0) return lines.length;
  const tail = Buffer.concat(lines);
  let at = 0;
  for (const [index, line] of lines.entries()) {
    const common = Math.min(tail.length - at, fresh.length);
    if (tail.compare(fresh, 0, common, at, at + common) === 0) return index;
    at += line.length;
  }
  return lines.length;
}
