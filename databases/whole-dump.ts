import { type Crc64, crc64, emptyCrc64 } from './crc64.ts';
import type { DumpEnd, RestoreByCommand } from './engine.ts';

/** A dump that is not whole. Its message says what is missing of it, as a sentence. */
export class DumpFault extends Error {}

/**
 * Passes on what belongs to the dump as it comes. It holds back less than a hundred bytes, and reads a chunk only when
 * the one before was taken.
 *
 * @throws DumpFault at the end of a stream that is not a whole dump: nobody may take that end for the end of the dump
 */
export function wholeDump(
  source: AsyncIterable<Uint8Array>,
  end: DumpEnd,
): AsyncGenerator<Uint8Array, void, undefined> {
  return end.by === 'text' ? endingWith(source, end.text) : endingAsRedisFile(source);
}

/**
 * What the program that restores a dump reads from its standard input.
 *
 * @throws DumpFault instead of what follows a dump, which makes the restore succeed, if the dump is not whole
 */
export async function* restoreInput(
  source: AsyncIterable<Uint8Array>,
  end: DumpEnd,
  { before, after }: Pick<RestoreByCommand, 'before' | 'after'>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const text = new TextEncoder();
  yield text.encode(before);
  yield* wholeDump(source, end);
  yield text.encode(after);
}

async function* endingWith(
  source: AsyncIterable<Uint8Array>,
  text: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const wanted = new TextEncoder().encode(text);
  let last = new Uint8Array();
  for await (const chunk of source) {
    yield chunk;
    last = joined(last, chunk.subarray(-wanted.length)).slice(-wanted.length);
  }
  if (!isEqual(last, wanted))
    throw new DumpFault(`The dump is cut: it does not end with ${JSON.stringify(text.trim())}`);
}

/** What ends the content of a file of Redis, before its checksum. */
const endOfFile = 0xff;
const checksumBytes = 8;
/** What `redis-cli` writes after a file that the server sent as it made it: characters by which it knew that end. */
const markBytes = 40;
const mark = /^[0-9a-f]{40}$/;
const heldBytes = 1 + checksumBytes + markBytes;

async function* endingAsRedisFile(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let sum = emptyCrc64;
  let held = new Uint8Array();
  for await (const chunk of source) {
    const all = joined(held, chunk);
    const kept = Math.max(0, all.length - heldBytes);
    held = all.slice(kept);
    const passed = all.subarray(0, kept);
    sum = crc64(passed, sum);
    if (kept > 0) yield passed;
  }
  const unmarked = held.subarray(0, -markBytes);
  const isMarked = mark.test(new TextDecoder('latin1').decode(held.subarray(-markBytes)));
  const rest = [held, ...(isMarked ? [unmarked] : [])].find((one) => isEndOfRedisFile(one, sum));
  if (rest === undefined) {
    throw new DumpFault('The dump is cut or damaged: it does not end with the checksum of what it holds');
  }
  yield rest;
}

function isEndOfRedisFile(bytes: Uint8Array, before: Crc64): boolean {
  const content = bytes.subarray(0, -checksumBytes);
  if (bytes.length <= checksumBytes || content.at(-1) !== endOfFile) return false;
  const { high, low } = crc64(content, before);
  const stored = new DataView(bytes.buffer, bytes.byteOffset + content.length, checksumBytes);
  return stored.getUint32(0, true) === low && stored.getUint32(4, true) === high;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
