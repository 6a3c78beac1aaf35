import { frames } from './frames.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import type { RecordedChunk } from './seam.ts';

/** The engine splits longer lines, so that a longer frame is not part of its record. */
const maxFrameBytes = 1024 * 1024;

/**
 * Yields the engine's own record of a container's output from `since` (RFC 3339) to now; nothing if there is no record.
 */
export async function* record(
  engine: Engine,
  id: string,
  since: string,
  signal: AbortSignal,
): AsyncGenerator<RecordedChunk> {
  const query = { stdout: true, stderr: true, timestamps: true, since: engineTime(since) };
  const call = { method: 'GET', path: ['containers', id, 'logs'], query } as const;
  let parts: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const { stream, data, last } of frames(await engine.open(call, signal))) {
      parts.push(data);
      size += data.length;
      if (size > maxFrameBytes) throw new RangeError(`A frame of the engine's record is above ${maxFrameBytes} bytes`);
      if (!last) continue;
      const line = Buffer.concat(parts);
      parts = [];
      size = 0;
      const space = line.indexOf(0x20);
      yield { stream, at: line.toString('latin1', 0, space), data: line.subarray(space + 1) };
    }
  } catch (error) {
    // 404: the container was removed. 501: its log driver cannot be read, which only a change from outside can cause.
    if (!isStatus(error, 404, 501)) throw error;
  }
}

/** Converts a time to the engine's form: seconds and nanoseconds. */
function engineTime(rfc3339: string): string {
  const fraction = /\.(\d{1,9})/.exec(rfc3339)?.[1] ?? '0';
  return `${Math.floor(Date.parse(rfc3339) / 1000)}.${fraction.padEnd(9, '0')}`;
}
