/** A checksum of 64 bits, in two halves without a sign. */
export interface Crc64 {
  high: number;
  low: number;
}

/** The checksum of nothing. */
export const emptyCrc64: Crc64 = { high: 0, low: 0 };

const width = 8;
/** What a byte adds, at `256 * following + byte`, where `following` bytes of its group of eight come after it. */
const high = new Int32Array(width * 256);
const low = new Int32Array(width * 256);

for (let byte = 0; byte < 256; byte += 1) {
  let [upper, lower] = [0, byte];
  for (let bit = 0; bit < 8; bit += 1) {
    const isOdd = (lower & 1) === 1;
    lower = (lower >>> 1) | (upper << 31);
    upper >>>= 1;
    // the polynomial of Jones, its bits in reverse
    if (isOdd) [upper, lower] = [upper ^ 0x95ac9329, lower ^ 0xac4bc9b5];
  }
  high[byte] = upper;
  low[byte] = lower;
}
for (let place = 256; place < width * 256; place += 1) {
  const [upper, lower] = [at(high, place - 256), at(low, place - 256)];
  high[place] = (upper >>> 8) ^ at(high, lower & 0xff);
  low[place] = (lower >>> 8) ^ (upper << 24) ^ at(low, lower & 0xff);
}

/**
 * The checksum that Redis writes at the end of its files, of these bytes after those that `before` is of. All of a dump
 * goes through it: it takes eight bytes at a time.
 */
export function crc64(bytes: Uint8Array, before: Crc64): Crc64 {
  let { high: upper, low: lower } = before;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const grouped = bytes.length - (bytes.length % width);
  let offset = 0;
  for (; offset < grouped; offset += width) {
    const first = lower ^ view.getInt32(offset, true);
    const second = upper ^ view.getInt32(offset + 4, true);
    const [a, b, c, d] = [
      0x700 | (first & 0xff),
      0x600 | ((first >>> 8) & 0xff),
      0x500 | ((first >>> 16) & 0xff),
      0x400 | (first >>> 24),
    ];
    const [e, f, g, h] = [
      0x300 | (second & 0xff),
      0x200 | ((second >>> 8) & 0xff),
      0x100 | ((second >>> 16) & 0xff),
      second >>> 24,
    ];
    upper =
      at(high, a) ^ at(high, b) ^ at(high, c) ^ at(high, d) ^ at(high, e) ^ at(high, f) ^ at(high, g) ^ at(high, h);
    lower = at(low, a) ^ at(low, b) ^ at(low, c) ^ at(low, d) ^ at(low, e) ^ at(low, f) ^ at(low, g) ^ at(low, h);
  }
  for (; offset < bytes.length; offset += 1) {
    const place = (lower ^ view.getUint8(offset)) & 0xff;
    lower = (lower >>> 8) ^ (upper << 24) ^ at(low, place);
    upper = (upper >>> 8) ^ at(high, place);
  }
  return { high: upper >>> 0, low: lower >>> 0 };
}

function at(table: Int32Array, place: number): number {
  return table[place] ?? 0;
}
