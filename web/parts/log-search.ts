import type { LogRing } from './log-ring.ts';
import { plainText } from './ansi.ts';

/** How often a slice looks at the clock. */
const linesPerLook = 500;
/** A search that finds more says so, and holds no more numbers than this. */
const mostMatches = 10_000;

/**
 * Finds the lines of a ring that have a text, without regard to case. It reads in slices of some milliseconds, so that
 * the page can paint in between, and goes on with lines that come later.
 */
export class LogSearch {
  readonly needle: string;
  readonly #ring: LogRing;
  readonly #matches: number[] = [];
  #next: number;

  constructor(ring: LogRing, needle: string) {
    this.#ring = ring;
    this.needle = needle.toLowerCase();
    this.#next = ring.first;
  }

  /** Numbers of the matching lines, ascending; those that have left the ring are dropped by each slice. */
  get matches(): readonly number[] {
    return this.#matches;
  }

  get isFull(): boolean {
    return this.#matches.length >= mostMatches;
  }

  /** Reads until `deadline` by `now`, or until all lines are read. @returns whether lines are left */
  slice(deadline: number, now: () => number): boolean {
    const stale = this.#matches.findIndex((number) => number >= this.#ring.first);
    if (stale > 0) this.#matches.splice(0, stale);
    else if (stale === -1) this.#matches.length = 0;
    this.#next = Math.max(this.#next, this.#ring.first);
    let looked = 0;
    while (this.#next < this.#ring.end && !this.isFull) {
      if (plainText(this.#ring.textAt(this.#next)).toLowerCase().includes(this.needle)) this.#matches.push(this.#next);
      this.#next += 1;
      looked += 1;
      if (looked % linesPerLook === 0 && now() >= deadline) break;
    }
    return this.#next < this.#ring.end && !this.isFull;
  }
}

/** A text split at the places of a needle; `isMatch`: the piece is one of them. */
export function piecesOf(text: string, needle: string): { text: string; isMatch: boolean }[] {
  if (needle === '') return [{ text, isMatch: false }];
  const pieces: { text: string; isMatch: boolean }[] = [];
  const low = text.toLowerCase();
  let at = 0;
  // a character whose lower case is longer would move the places: then nothing is marked
  if (low.length === text.length)
    for (let found = low.indexOf(needle); found !== -1; found = low.indexOf(needle, at)) {
      if (found > at) pieces.push({ text: text.slice(at, found), isMatch: false });
      pieces.push({ text: text.slice(found, found + needle.length), isMatch: true });
      at = found + needle.length;
    }
  if (at < text.length) pieces.push({ text: text.slice(at), isMatch: false });
  return pieces;
}
