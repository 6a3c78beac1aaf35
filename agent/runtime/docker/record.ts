import { frames } from './frames.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import type { RecordedChunk } from './seam.ts';

/** The engine splits longer lines, so a longer frame is none of its record. */
const maxFrameBytes = 1024 * 1024;

/** The engine's own record of a container's output from `since` (RFC 3339) to now; empty if it keeps none. */
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
    // 404: it was removed meanwhile; 501: its log driver cannot be read, which only a foreign change can cause.
    if (!isStatus(error, 404, 501)) throw error;
  }
}

/** Seconds and nanoseconds, as the engine wants them. */
function engineTime(rfc3339: string): string {
  const fraction = /\.(\d{1,9})/.exec(rfc3339)?.[1] ?? '0';
  return `${Math.floor(Date.parse(rfc3339) / 1000)}.${fraction.padEnd(9, '0')}`;
}
