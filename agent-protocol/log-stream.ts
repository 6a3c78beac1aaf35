import { CallError } from './call-error.ts';
import { LogChunk } from './logs.ts';

/** Longest chunk on the wire, in bytes. Producers make much smaller batches. */
export const maxLogChunkBytes = 1024 * 1024;

/** Encodes one chunk of a log stream as JSON and a line feed. */
export function encodeLogChunk(chunk: LogChunk): Uint8Array {
  return Buffer.from(`${JSON.stringify(chunk)}\n`);
}

/** Decodes the bytes of a log stream into chunks. @throws CallError `malformed` if the bytes are not chunks */
export async function* decodeLogChunks(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<LogChunk, void, undefined> {
  let parts: Uint8Array[] = [];
  let pending = 0;
  for await (const part of bytes) {
    let from = 0;
    for (let at = part.indexOf(10); at !== -1; at = part.indexOf(10, from)) {
      parts.push(part.subarray(from, at));
      yield parse(Buffer.concat(parts));
      parts = [];
      pending = 0;
      from = at + 1;
    }
    if (from === part.length) continue;
    parts.push(part.subarray(from));
    pending += part.length - from;
    if (pending > maxLogChunkBytes)
      throw new CallError('malformed', `A chunk of the log stream must have at most ${maxLogChunkBytes} bytes`);
  }
  if (pending > 0) throw new CallError('malformed', 'The log stream ended within a chunk');
}

function parse(line: Buffer): LogChunk {
  try {
    return LogChunk.parse(JSON.parse(line.toString('utf8')));
  } catch (error) {
    throw new CallError('malformed', 'The log stream holds something that is no chunk of lines', { cause: error });
  }
}
