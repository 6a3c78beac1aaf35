import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { crc64, emptyCrc64 } from '../../databases/crc64.ts';
import type { DumpEnd } from '../../databases/engine.ts';
import { DumpFault, restoreInput, wholeDump } from '../../databases/whole-dump.ts';

const sql: DumpEnd = { by: 'text', text: '\n-- Dump completed\n' };
const rdb: DumpEnd = { by: 'checksum' };
const mark = '0123456789abcdef0123456789abcdef01234567';

/** The same checksum, a bit at a time. */
function slowCrc64(bytes: Uint8Array): bigint {
  let sum = 0n;
  for (const byte of bytes) {
    sum ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit += 1) sum = (sum & 1n) === 1n ? (sum >> 1n) ^ 0x95ac9329ac4bc9b5n : sum >> 1n;
  }
  return sum;
}

function redisFile(content: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from('REDIS0012'), content, Buffer.from([0xff])]);
  const sum = Buffer.alloc(8);
  sum.writeBigUInt64LE(slowCrc64(body));
  return Buffer.concat([body, sum]);
}

function chunked(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let offset = 0, index = 0; offset < bytes.length; index += 1) {
    const size = sizes[index % sizes.length] ?? 1;
    chunks.push(bytes.subarray(offset, offset + size));
    offset += size;
  }
  return chunks;
}

const read = (chunks: readonly Uint8Array[], end: DumpEnd): Promise<Buffer> =>
  buffer(Readable.from(wholeDump(Readable.from(chunks), end)));

const sizes = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 5 });
const content = fc.uint8Array({ maxLength: 300 });

test('the checksum is that of Redis, also in pieces', () => {
  const known = crc64(new TextEncoder().encode('123456789'), emptyCrc64);
  expect(known).toEqual({ high: 0xe9c6d914, low: 0xc4b8d9ca });
  fc.assert(
    fc.property(content, fc.nat(), (bytes, at) => {
      const place = at % (bytes.length + 1);
      const { high, low } = crc64(bytes.subarray(place), crc64(bytes.subarray(0, place), emptyCrc64));
      expect((BigInt(high) << 32n) | BigInt(low)).toBe(slowCrc64(bytes));
    }),
  );
});

test('a dump in SQL is passed on as it is, and is whole if it ends with its last line', async () => {
  await fc.assert(
    fc.asyncProperty(content, sizes, fc.nat(), async (before, pieces, at) => {
      const bytes = Buffer.concat([before, Buffer.from('\n-- Dump completed\n')]);
      expect(await read(chunked(bytes, pieces), sql)).toEqual(bytes);
      const cut = bytes.subarray(0, at % bytes.length);
      await expect(read(chunked(cut, pieces), sql)).rejects.toThrow(
        'The dump is cut: it does not end with "-- Dump completed"',
      );
    }),
  );
});

test('a file of Redis is passed on without the mark that follows it, and is whole by its checksum', async () => {
  await fc.assert(
    fc.asyncProperty(content, sizes, fc.nat(), fc.nat(), fc.boolean(), async (held, pieces, at, bit, isMarked) => {
      const bytes = redisFile(held);
      const sent = isMarked ? Buffer.concat([bytes, Buffer.from(mark)]) : bytes;
      expect(await read(chunked(sent, pieces), rdb)).toEqual(bytes);
      const changed = Buffer.from(bytes);
      const place = at % bytes.length;
      changed[place] = (changed[place] ?? 0) ^ (1 << (bit % 8));
      for (const fault of [bytes.subarray(0, place), changed, Buffer.concat([changed, Buffer.from(mark)])]) {
        await expect(read(chunked(fault, pieces), rdb)).rejects.toThrow(DumpFault);
      }
    }),
  );
});

test('what makes a restore succeed follows a whole dump alone', async () => {
  const around = { before: 'before\n', after: 'after\n' };
  const input = (dump: string): AsyncIterable<Uint8Array> =>
    restoreInput(Readable.from([Buffer.from(dump)]), sql, around);
  expect(await text(Readable.from(input('x;\n-- Dump completed\n')))).toBe('before\nx;\n-- Dump completed\nafter\n');
  const seen: string[] = [];
  const cut = (async () => {
    for await (const chunk of input('x;\n')) seen.push(Buffer.from(chunk).toString());
  })();
  await expect(cut).rejects.toThrow(DumpFault);
  expect(seen).toEqual(['before\n', 'x;\n']);
});
