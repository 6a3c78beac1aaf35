import { cutMark } from './clean.ts';
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
 * the first one after it. Parts of lines that were cut are not compared, as the record has the line as a whole. If no line
 * matches, the engine has removed what followed the stored lines, and a line says so.
 */
export class Resume {
  readonly #stored: readonly StoredLine[];
  readonly #last: number;
  /** The process that wrote the stored lines is the one whose output is recorded. */
  readonly #isSame: boolean;
  #held: Entry[] = [];
  #open: boolean;

  /** @param startedAt when the process began whose output is recorded, in milliseconds since 1970; `undefined`: not known */
  constructor(stored: readonly StoredLine[], startedAt: number | undefined) {
    this.#stored = stored;
    this.#last = Math.max(...stored.map((line) => line.at));
    this.#isSame = startedAt !== undefined && startedAt <= this.#last;
    this.#open = stored.length > 0;
  }

  /** The end of what is stored was not found yet. */
  get isOpen(): boolean {
    return this.#open;
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
    return [...this.#end(entries[beyond]), ...entries.slice(beyond)];
  }

  /** The record ended: returns the held lines that are new. */
  end(): Entry[] {
    return this.#end(undefined);
  }

  /** `next`: the first line after the held ones. */
  #end(next: Entry | undefined): Entry[] {
    if (!this.#open) return [];
    this.#open = false;
    const held = this.#held;
    this.#held = [];
    const skip = { stdout: this.#known(held, 'stdout'), stderr: this.#known(held, 'stderr') };
    const first = held[0] ?? next;
    // of what is older, the part of the record that is read has nothing
    const isRecent = ({ at }: StoredLine): boolean => at > this.#last - overlapMs / 2;
    const isComparable = this.#stored.some((line) => isWhole(line) && isRecent(line));
    const isLost = this.#isSame && isComparable && skip.stdout + skip.stderr === 0;
    const gap = isLost && first !== undefined ? [this.#gap(first)] : [];
    return gap.concat(this.#unknown(held, skip));
  }

  #unknown(held: readonly Entry[], known: Readonly<Record<'stdout' | 'stderr', number>>): Entry[] {
    const skip = { ...known };
    return held.filter((entry) => {
      if (entry.stream !== 'stdout' && entry.stream !== 'stderr') return true;
      skip[entry.stream] -= 1;
      return skip[entry.stream] < 0;
    });
  }

  /** Says that lines between the stored ones and this one are not in the record any more. */
  #gap({ at, instance }: Entry): Entry {
    const [from, to] = [this.#last, Math.max(this.#last, at)].map((time) => new Date(time).toISOString());
    const message = `Output between ${from} and ${to} is missing: the engine had removed it from its record while the agent was away`;
    return { at: Math.max(this.#last, at), stream: 'system', level: 'warn', instance, message };
  }

  /** Returns how many of the held lines of a stream are already stored. */
  #known(held: readonly Entry[], stream: 'stdout' | 'stderr'): number {
    const stored = this.#stored.filter((line) => line.stream === stream);
    const record = held.filter((entry) => entry.stream === stream);
    const whole = stored.some(isWhole) ? isWhole : () => true;
    const places = record.flatMap((entry, index) => (whole(entry) ? [index] : []));
    const tail = stored.filter(whole).map((line) => line.message);
    const count = this.#knownOf(
      tail,
      places.map((index) => record[index]).filter((entry) => entry !== undefined),
    );
    // whole lines may be older than what is read of the record
    if (count === 0)
      return this.#knownOf(
        stored.map(({ message }) => message),
        record,
      );
    // The parts that were stored after the last whole line, as far as the record has the same ones.
    const parts = stored.slice(stored.findLastIndex(whole) + 1);
    let end = (places[count - 1] ?? 0) + 1;
    for (const { message } of parts) {
      if (record[end]?.message !== message) break;
      end += 1;
    }
    return end;
  }

  /** How many lines of a record are in a log that ends with `tail`. */
  #knownOf(tail: readonly string[], record: readonly Entry[]): number {
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

/** Whether a line is no part of one that was cut. */
function isWhole({ message }: Pick<Entry, 'message'>): boolean {
  return !message.startsWith(cutMark) && !message.endsWith(cutMark);
}
