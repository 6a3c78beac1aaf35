import { CallError } from './call-error.ts';
import { maxPayloadBytes } from './data-frame.ts';

/**
 * The bytes of a terminal's stream, in both directions: frames of `u8 type, u32 length (big endian), payload`. Frames of
 * an unknown type are skipped. Data of a frame is handed on as it comes.
 */
const types = { data: 0, resize: 1, exit: 2 } as const;

const headerBytes = 5;
/** Most data that goes with its header into one binary frame of the protocol. */
export const maxDataBytes = maxPayloadBytes - headerBytes;
/** Longest payload of a frame that is not data. */
const maxControlBytes = 64;

/** What the user sends. */
export type TerminalInput =
  | { type: 'data'; data: Uint8Array }
  /** New size of the terminal, in characters. */
  | { type: 'resize'; cols: number; rows: number };

/** What the process sends. */
export type TerminalOutput =
  | { type: 'data'; data: Uint8Array }
  /** The last frame: the process has ended. The code is absent if it is not known. */
  | { type: 'exit'; code: number | undefined };

export function encodeTerminal(it: TerminalInput | TerminalOutput): Uint8Array {
  switch (it.type) {
    case 'data':
      return frame(types.data, it.data);
    case 'resize': {
      const payload = Buffer.alloc(4);
      payload.writeUInt16BE(it.cols, 0);
      payload.writeUInt16BE(it.rows, 2);
      return frame(types.resize, payload);
    }
    case 'exit': {
      const payload = Buffer.alloc(it.code === undefined ? 0 : 4);
      if (it.code !== undefined) payload.writeInt32BE(it.code, 0);
      return frame(types.exit, payload);
    }
  }
}

/** @throws CallError `malformed` */
export async function* decodeTerminalInput(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<TerminalInput> {
  for await (const { type, payload } of parts(bytes)) {
    if (type === types.data) yield { type: 'data', data: payload };
    else if (type === types.resize && payload.length >= 4)
      yield { type: 'resize', cols: payload.readUInt16BE(0), rows: payload.readUInt16BE(2) };
  }
}

/** @throws CallError `malformed` */
export async function* decodeTerminalOutput(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<TerminalOutput> {
  for await (const { type, payload } of parts(bytes)) {
    if (type === types.data) yield { type: 'data', data: payload };
    else if (type === types.exit)
      yield { type: 'exit', code: payload.length >= 4 ? payload.readInt32BE(0) : undefined };
  }
}

function frame(type: number, payload: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(headerBytes + payload.length);
  bytes.writeUInt8(type, 0);
  bytes.writeUInt32BE(payload.length, 1);
  bytes.set(payload, headerBytes);
  return bytes;
}

/** Splits bytes into frames: data in the parts in which it comes, others as a whole. */
async function* parts(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<{ type: number; payload: Buffer }> {
  /** An incomplete header, or a header with an incomplete payload that is not data. */
  let held: Buffer = Buffer.alloc(0);
  /** Bytes of data that the present frame still has. */
  let left = 0;
  for await (const chunk of bytes) {
    let rest =
      left === 0 && held.length > 0
        ? Buffer.concat([held, chunk])
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    held = Buffer.alloc(0);
    while (rest.length > 0) {
      if (left > 0) {
        const payload = rest.subarray(0, left);
        left -= payload.length;
        rest = rest.subarray(payload.length);
        yield { type: types.data, payload };
        continue;
      }
      if (rest.length < headerBytes) break;
      const type = rest.readUInt8(0);
      const length = rest.readUInt32BE(1);
      if (type === types.data) {
        left = length;
        rest = rest.subarray(headerBytes);
        continue;
      }
      if (length > maxControlBytes)
        throw malformed(`A frame of type ${type} must have at most ${maxControlBytes} bytes`);
      if (rest.length < headerBytes + length) break;
      yield { type, payload: rest.subarray(headerBytes, headerBytes + length) };
      rest = rest.subarray(headerBytes + length);
    }
    held = rest;
  }
  if (left > 0 || held.length > 0) throw malformed('The stream of the terminal ended within a frame');
}

function malformed(message: string): CallError {
  return new CallError('malformed', message);
}
