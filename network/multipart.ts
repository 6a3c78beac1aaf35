import { createHash } from 'node:crypto';

/** Most parts of an upload, by the rules of S3. */
export const maxParts = 10_000;
/** Smallest and largest size of parts in bytes: all but the last one of an upload have the same size. S3 takes none below 5 MiB. */
export const minPartBytes = 5 * 1024 * 1024;
export const maxPartBytes = 64 * 1024 * 1024;

const mebibyte = 1024 * 1024;
/** Of what no size is known, 312 GiB fit into one upload. */
const usualPartBytes = 32 * mebibyte;
/** How many times as large as expected an upload may become. */
const reserve = 4;

/**
 * The size of the parts of an upload, in bytes; a whole number of MiB. An upload that is expected to have `expectedBytes`
 * may become four times as large, until the largest parts are reached: with those one upload holds 625 GiB.
 *
 * @param expectedBytes about how many bytes will come; `undefined`: not known
 */
export function partBytesFor(expectedBytes: number | undefined): number {
  if (expectedBytes === undefined) return usualPartBytes;
  const needed = Math.ceil((expectedBytes * reserve) / maxParts / mebibyte) * mebibyte;
  return Math.min(Math.max(needed, minPartBytes), maxPartBytes);
}

/** The ETag that S3 gives to an object of these parts, without quotes: MD5 of the MD5s, and how many they are. */
export function etagOf(md5s: readonly Uint8Array[]): string {
  const hash = createHash('md5');
  for (const md5 of md5s) hash.update(md5);
  return `${hash.digest('hex')}-${md5s.length}`;
}
