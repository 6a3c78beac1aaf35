import type { Entry, StoredLine } from './record.ts';

/** Most lines of the engine's record that are held back because their time does not show whether they are stored. */
const heldMost = 20_000;

/** A stored line has the time of its arrival, the record the time of its writing: they differ by at most this time. */
export const overlapMs = 10_000;
/**
 * The engine passes output on and records it side by side, so that a line may arrive before the time in its record, on a
 * busy machine by at most this time.
 */
const aheadMs = 1_000;
/** Number of last stored lines that are searched for in the record. */
export const comparedLines = 32;

/**
 * Finds where the stored output of an instance ends in the engine's record of it. Lines that were recorded a second after
 * the last stored line arrived are new. Earlier lines are compared with the last stored lines, separately for each stream.
 * Of places where as many match, the last one counts that is not after the arrival, so that nothing is stored twice; else
 * the first one after it.
 */
export class Resume {
  readonly #stored: readonly StoredLine[];
  readonly #last: number;
  #held: Entry[] = [];
  #open: boolean;

  constructor(stored: readonly StoredLine[]) {
    this.#stored = stored;
    this.#last = Math.max(...stored.map((line) => line.at));
    this.#open = stored.length > 0;
  }

  /** Takes the next lines and returns the lines to store now. `recorded`: the lines have the engine's time. */
  push(entries: readonly Entry[], recorded: boolean): Entry[] {
    if (!this.#open) return [...entries];
    const beyond = recorded ? entries.findIndex((entry) => entry.at > this.#last + aheadMs) : 0;
    if (beyond === -1) {
      this.#held.push(...entries);
      return this.#held.length > heldMost ? this.end() : [];
    }
    this.#held.push(...entries.slice(0, beyond));
    return [...this.end(), ...entries.slice(beyond)];
  }

  /** The record ended: returns the held lines that are new. */
  end(): Entry[] {
    if (!this.#open) return [];
    this.#open = false;
    const held = this.#held;
    this.#held = [];
    const skip = { stdout: this.#known(held, 'stdout'), stderr: this.#known(held, 'stderr') };
    return held.filter((entry) => {
      if (entry.stream !== 'stdout' && entry.stream !== 'stderr') return true;
      skip[entry.stream] -= 1;
      return skip[entry.stream] < 0;
    });
  }

  /** Returns how many of the held lines of a stream are already stored. */
  #known(held: readonly Entry[], stream: 'stdout' | 'stderr'): number {
    const tail = this.#stored.filter((line) => line.stream === stream).map((line) => line.message);
    const record = held.filter((entry) => entry.stream === stream);
    const after = record.findIndex((entry) => entry.at > this.#last);
    const arrived = after === -1 ? record.length : after;
    const ends = [
      ...Array.from({ length: arrived }, (_, index) => arrived - index),
      ...Array.from({ length: record.length - arrived }, (_, index) => arrived + index + 1),
    ];
    // no more lines than the record has of those that had arrived, so that equal lines of later do not count as these
    for (let from = Math.max(0, tail.length - Math.max(1, arrived)); from < tail.length; from += 1) {
      const wanted = tail.slice(from);
      const isEnd = (end: number): boolean =>
        end >= wanted.length &&
        wanted.every((message, index) => record[end - wanted.length + index]?.message === message);
      const end = ends.find(isEnd);
      if (end !== undefined) return end;
    }
    return 0;
  }
}
