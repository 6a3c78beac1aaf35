import type { Entry, StoredLine } from './record.ts';

/** Lines of a container's record that cannot be told apart by their time alone are held back, so many at most. */
const heldMost = 20_000;

/** Stored lines are stamped when they arrive, the record's when they were written: they lie apart by no more. */
export const overlapMs = 10_000;
/** So many of the last stored lines are looked for in the record. */
export const comparedLines = 32;

/**
 * Finds the seam between what is stored of an instance's output and the engine's record of it. Lines that were written
 * after the last stored one arrived are new. Those before are compared with the last stored ones, for each stream of
 * its own; the last place where they fit counts, so that nothing is stored twice.
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

  /** Lines are being held back. */
  get holding(): boolean {
    return this.#open;
  }

  /** Takes the next lines; answers with those that are to be stored now. `recorded`: they have the engine's time. */
  push(entries: readonly Entry[], recorded: boolean): Entry[] {
    if (!this.#open) return [...entries];
    const beyond = recorded ? entries.findIndex((entry) => entry.at > this.#last) : 0;
    if (beyond === -1) {
      this.#held.push(...entries);
      return this.#held.length > heldMost ? this.end() : [];
    }
    this.#held.push(...entries.slice(0, beyond));
    return [...this.end(), ...entries.slice(beyond)];
  }

  /** Nothing more of the record comes: what was held back and is new. */
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

  /** How many of the held lines of a stream are stored. */
  #known(held: readonly Entry[], stream: 'stdout' | 'stderr'): number {
    const tail = this.#stored.filter((line) => line.stream === stream).map((line) => line.message);
    const record = held.filter((entry) => entry.stream === stream).map((entry) => entry.message);
    for (let from = 0; from < tail.length; from += 1) {
      const wanted = tail.slice(from);
      for (let end = record.length; end >= wanted.length; end -= 1) {
        if (wanted.every((message, index) => record[end - wanted.length + index] === message)) return end;
      }
    }
    return 0;
  }
}
