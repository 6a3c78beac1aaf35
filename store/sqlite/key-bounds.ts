import type { KeyRange } from '../store.ts';

/** `start ≤ key < end` in the order of UTF-8 bytes, which is SQLite's order of text. */
export interface KeyBounds {
  start: string;
  /** A blob sorts above every text: it means no upper bound. */
  end: string | Uint8Array;
}

/** The keys that start with the range's prefix and come after `after`. */
export function keyBounds({ prefix }: KeyRange, after?: string): KeyBounds {
  const end = successor(prefix);
  if (after === undefined) return { start: prefix, end };
  const next = `${after}\0`; // the least text above it
  const isBeyond = Buffer.compare(Buffer.from(next), Buffer.from(prefix)) > 0;
  return { start: isBeyond ? next : prefix, end };
}

/** The least text above all that start with `prefix`: raises its last code point that is not the highest by one. */
function successor(prefix: string): string | Uint8Array {
  const points = Array.from(prefix);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    const point = last.codePointAt(0) ?? 0;
    if (point === 0x10ffff) continue;
    const next = point === 0xd7ff ? 0xe000 : point + 1; // surrogates are no characters
    return points.join('') + String.fromCodePoint(next);
  }
  return new Uint8Array();
}
