import type { OutputChunk } from '../runtime.ts';

/** A part of a frame. The parts of a frame come in order, and the final part has `last`. */
export interface FramePart extends OutputChunk {
  last: boolean;
}

const headerBytes = 8;

/**
 * Splits the engine's multiplexed output: each frame is a header (stream number, three zeros, length as big-endian u32)
 * and that many bytes. Parts are passed on as they come: only an incomplete header is kept.
 * @throws RangeError if the bytes are not such a stream
 */
export async function* frames(source: AsyncIterable<Buffer>): AsyncGenerator<FramePart> {
  let header: Buffer = Buffer.alloc(0);
  let stream: OutputChunk['stream'] = 'stdout';
  let missing = 0;
  for await (const chunk of source) {
    let at = 0;
    while (at < chunk.length) {
      if (missing === 0) {
        const taken = chunk.subarray(at, at + headerBytes - header.length);
        header = header.length === 0 ? taken : Buffer.concat([header, taken]);
        at += taken.length;
        if (header.length < headerBytes) break;
        stream = streamOf(header);
        missing = header.readUInt32BE(4);
        header = Buffer.alloc(0);
        if (missing === 0) yield { stream, data: header, last: true };
        continue;
      }
      const data = chunk.subarray(at, at + missing);
      at += data.length;
      missing -= data.length;
      yield { stream, data, last: missing === 0 };
    }
  }
}

function streamOf(header: Buffer): OutputChunk['stream'] {
  const [number, ...zeros] = header.subarray(0, 4);
  if ((number !== 1 && number !== 2) || zeros.some((byte) => byte !== 0)) {
    throw new RangeError(`The container engine sent a frame header that it does not define: ${header.toString('hex')}`);
  }
  return number === 1 ? 'stdout' : 'stderr';
}
