import { once } from 'node:events';
import type { Duplex } from 'node:stream';

/** Before each message: whether it is compressed, which none is, and its length. */
const headBytes = 5;

/** Yields the messages of a call. @throws RangeError if one is longer than `maxBytes`, or compressed */
export async function* grpcReader(stream: Duplex, maxBytes: number): AsyncGenerator<Buffer, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  // The reader may end before the engine does, and still has to answer.
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    rest = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]); // no encoding is set
    while (rest.length >= headBytes) {
      const length = rest.readUInt32BE(1);
      if (rest[0] !== 0 || length > maxBytes)
        throw new RangeError(`A message of gRPC is compressed, or has ${length} bytes`);
      if (rest.length < headBytes + length) break;
      yield rest.subarray(headBytes, headBytes + length);
      rest = rest.subarray(headBytes + length);
    }
  }
  return undefined;
}

/** Writes a message; resolves once there is room for the next one. @throws Error if the stream is closed */
export async function grpcWrite(stream: Duplex, message: Buffer): Promise<void> {
  const head = Buffer.alloc(headBytes);
  head.writeUInt32BE(message.length, 1);
  if (stream.destroyed) throw new Error('The engine ended the call');
  if (stream.write(Buffer.concat([head, message]))) return;
  const closed = new AbortController();
  const close = (): void => closed.abort(new Error('The engine ended the call'));
  stream.once('close', close);
  try {
    await once(stream, 'drain', { signal: closed.signal });
  } finally {
    stream.off('close', close);
  }
}
