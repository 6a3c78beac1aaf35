import type { OutputChunk } from '../runtime.ts';

/** A line of the engine's record; its time has nanoseconds. */
export interface RecordedChunk extends OutputChunk {
  at: string;
}

/**
 * Which of the recorded chunks came before the live ones. Both were read side by side: `recorded` to its end, `live`
 * from about the same moment on, so that the end of the one may be the beginning of the other. They are told apart by
 * content, for each of the two streams; the longest possible overlap counts.
 */
export function beforeLive(recorded: readonly RecordedChunk[], live: readonly OutputChunk[]): RecordedChunk[] {
  const cut = { stdout: overlap(recorded, live, 'stdout'), stderr: overlap(recorded, live, 'stderr') };
  const left = { stdout: cut.stdout, stderr: cut.stderr };
  return recorded.filter(({ stream }) => {
    left[stream] -= 1;
    return left[stream] >= 0;
  });
}

/** How many recorded chunks of `stream` come before the first live byte. */
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
