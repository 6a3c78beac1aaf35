import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { StoredLine } from './record.ts';
import { decodeLine } from './record.ts';

/** A file of stored lines. Its name is the number of its first line. */
export interface Segment {
  first: number;
  path: string;
  /** Length of the complete lines, in bytes. */
  bytes: number;
  /** Wall clock of the last write, in milliseconds since 1970. */
  writtenAt: number;
}

/**
 * The lines that stayed when a segment was removed. The name of the file has the number of the segment, and a version: a
 * file with a higher one replaces it when fewer of its lines stay.
 */
export interface KeptSegment extends Segment {
  version: number;
  /** `undefined` until they were counted. */
  lines: number | undefined;
}

/** Longer than the longest stored line, so that a block always has a complete line. */
export const blockBytes = 256 * 1024;
const lineFeed = 0x0a;

export function segmentPath(folder: string, first: number): string {
  return join(folder, `${String(first).padStart(16, '0')}.log`);
}

export function keptPath(folder: string, first: number, version: number): string {
  return join(folder, `${String(first).padStart(16, '0')}-${version}.kept`);
}

/**
 * Returns the files of kept lines of a folder, oldest first. Removes what a crash left: a file beside one that replaces
 * it, and one beside the segment that it was made of. `firstSeq`: number of the first line in a segment.
 */
export async function openKept(folder: string, firstSeq: number): Promise<KeptSegment[]> {
  const found = new Map<number, KeptSegment>();
  for (const name of await readdir(folder)) {
    const [, number = '', version = ''] = /^(\d{16})-(\d{1,9})\.kept$/.exec(name) ?? [];
    if (number === '') continue;
    const path = join(folder, name);
    const { size, mtimeMs } = await stat(path);
    const first = Number.parseInt(number, 10);
    const kept = { first, path, bytes: size, writtenAt: mtimeMs, version: Number(version), lines: undefined };
    const other = found.get(first);
    const isSpent = first >= firstSeq || (other !== undefined && other.version > kept.version);
    if (!isSpent) found.set(first, kept);
    const spent = isSpent ? kept : other;
    if (spent !== undefined) await rm(spent.path, { force: true });
  }
  return [...found.values()].toSorted((a, b) => a.first - b.first);
}

/**
 * Returns the segments of a folder, oldest first, the number of the next line, and the last line that there is. Cuts off a torn last line.
 */
export async function openSegments(
  folder: string,
): Promise<{ segments: Segment[]; next: number; last: StoredLine | undefined }> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const names = (await readdir(folder)).filter((name) => /^\d{16}\.log$/.test(name)).toSorted();
  const segments = await Promise.all(
    names.map(async (name): Promise<Segment> => {
      const path = join(folder, name);
      const { size, mtimeMs } = await stat(path);
      return { first: Number.parseInt(name, 10), path, bytes: size, writtenAt: mtimeMs };
    }),
  );
  const newest = segments.at(-1);
  if (newest === undefined) return { segments, next: 1, last: undefined };
  await using file = await open(newest.path, 'r+');
  const end = await lastLine(file, newest.bytes);
  if (end.bytes !== newest.bytes) await file.truncate(end.bytes);
  newest.bytes = end.bytes;
  return {
    segments,
    next: end.line === undefined ? newest.first : end.line.seq + 1,
    last: end.line ?? (await lastOf(segments.at(-2))),
  };
}

async function lastOf(segment: Segment | undefined): Promise<StoredLine | undefined> {
  if (segment === undefined) return undefined;
  await using file = await open(segment.path, 'r');
  return (await lastLine(file, segment.bytes)).line;
}

async function lastLine(file: FileHandle, size: number): Promise<{ bytes: number; line: StoredLine | undefined }> {
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - blockBytes);
    const block = await readExactly(file, start, end - start);
    for (let feed = block.lastIndexOf(lineFeed); feed !== -1;) {
      const before = feed === 0 ? -1 : block.lastIndexOf(lineFeed, feed - 1);
      if (before === -1 && start > 0) break;
      const line = decodeLine(block.toString('utf8', before + 1, feed));
      if (line !== undefined) return { bytes: start + feed + 1, line };
      feed = before;
    }
    // No line in this block: continue with an overlap of one longest line, or stop at the beginning.
    end = start === 0 ? 0 : start + Math.min(blockBytes / 2, end - start - 1);
  }
  return { bytes: 0, line: undefined };
}

export async function readExactly(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(buffer, done, length - done, position + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return buffer.subarray(0, done);
}

/** Returns the complete lines of a block. */
export function linesOf(block: Buffer): StoredLine[] {
  const end = block.lastIndexOf(lineFeed);
  if (end === -1) return [];
  const lines: StoredLine[] = [];
  for (const text of block.toString('utf8', 0, end).split('\n')) {
    const line = decodeLine(text);
    if (line !== undefined) lines.push(line);
  }
  return lines;
}

/**
 * Returns the offset of the first line that `isAfter` holds for. Bisects the file: it must hold for every line after one
 * that it holds for.
 */
export async function offsetAfter(
  file: FileHandle,
  size: number,
  isAfter: (line: StoredLine) => boolean,
): Promise<number> {
  let low = 0;
  let high = size;
  while (high - low > blockBytes) {
    const middle = Math.floor((low + high) / 2);
    const block = await readExactly(file, middle, Math.min(blockBytes, high - middle));
    const feed = block.indexOf(lineFeed);
    const [line] = feed === -1 ? [] : linesOf(block.subarray(feed + 1));
    if (line === undefined || isAfter(line)) high = middle;
    else low = middle + feed + 1;
  }
  const block = await readExactly(file, low, Math.min(2 * blockBytes, size - low));
  let offset = 0;
  for (let feed = block.indexOf(lineFeed); feed !== -1; feed = block.indexOf(lineFeed, offset)) {
    const line = decodeLine(block.toString('utf8', offset, feed));
    if (line !== undefined && isAfter(line)) return low + offset;
    offset = feed + 1;
  }
  return low + offset;
}
