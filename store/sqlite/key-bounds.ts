import type { KeyRange } from '../store.ts';

/** `start ≤ key < end` in the order of UTF-8 bytes, which is SQLite's order of text. */
export interface KeyBounds {
  start: string;
  /** Bytes sort above every text: no upper bound. */
  end: string | Uint8Array;
}

/** The keys that start with the range's prefix. */
export function keyBounds(range: KeyRange): KeyBounds {
  return { start: range.prefix, end: successor(range.prefix) };
}

/** The least text above everything that starts with `prefix`: its last code point but the highest, plus one. */
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
