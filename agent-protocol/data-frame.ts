/** Largest payload of a binary frame, in bytes. */
export const maxPayloadBytes = 32 * 1024;

const headerBytes = 5;

/** Flags of a binary frame; unknown bits are ignored. */
const flags = { end: 1 } as const;

/** A frame of stream bytes: `u32 stream id (big endian), u8 flags, payload`. `end`: the last frame of its stream. */
export interface Data {
  stream: number;
  end: boolean;
  payload: Uint8Array;
}

/** @throws RangeError if the payload is longer than {@link maxPayloadBytes}. */
export function encodeData({ stream, end, payload }: Data): Uint8Array {
  if (payload.length > maxPayloadBytes)
    throw new RangeError(`Payload must be at most ${maxPayloadBytes} bytes: got ${payload.length}`);
  const frame = Buffer.allocUnsafe(headerBytes + payload.length);
  frame.writeUInt32BE(stream, 0);
  frame.writeUInt8(end ? flags.end : 0, 4);
  frame.set(payload, headerBytes);
  return frame;
}

/** Decodes a binary frame; `undefined` if it is too short or too long. The payload is a view of the frame. */
export function decodeData(frame: Uint8Array): Data | undefined {
  if (frame.length < headerBytes || frame.length > headerBytes + maxPayloadBytes) return undefined;
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const end = (view.getUint8(4) & flags.end) !== 0;
  return { stream: view.getUint32(0), end, payload: frame.subarray(headerBytes) };
}
