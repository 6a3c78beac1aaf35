import { plainText } from './ansi.ts';

const levels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof levels)[number];
const marks = ['line', 'gap', 'step'] as const;

/** One line of a log. `mark`: `gap` tells of lines that are missing, `step` begins what can be folded. */
export interface LogLine {
  readonly text: string;
  /** Milliseconds of the epoch; 0 where there is none. */
  readonly at: number;
  readonly level: LogLevel;
  /** The workload or instance that wrote it; empty where there is only one. */
  readonly source: string;
  /** Grows with each line of one source; -1 where there is none. */
  readonly seq: number;
  readonly mark: (typeof marks)[number];
}

/** A line that is added. */
export interface NewLine extends LogLine {
  /** What its `seq` counts the lines of, where the text of the source may be that of several. */
  readonly sourceId?: string;
}

/** Most characters of all lines that are held. */
const mostChars = 32 * 1024 * 1024;

/**
 * The last lines of a log, in columns, so that 100,000 lines cost no object each; fewer where they are long. A line keeps its number for good:
 * `first` is the number of the oldest line that is still held, `end` the number after the newest one.
 */
export class LogRing {
  readonly capacity: number;
  readonly #texts: string[];
  readonly #instants: Float64Array;
  readonly #seqs: Float64Array;
  readonly #levels: Uint8Array;
  readonly #marks: Uint8Array;
  readonly #sources: Uint32Array;
  readonly #sourceNames: string[] = [];
  readonly #sourceIndex = new Map<string, number>();
  readonly #lastSeq = new Map<string, number>();
  readonly #listeners = new Set<() => void>();
  #first = 0;
  #end = 0;
  #chars = 0;

  constructor(capacity = 100_000) {
    this.capacity = capacity;
    this.#texts = [];
    this.#instants = new Float64Array(capacity);
    this.#seqs = new Float64Array(capacity);
    this.#levels = new Uint8Array(capacity);
    this.#marks = new Uint8Array(capacity);
    this.#sources = new Uint32Array(capacity);
  }

  get first(): number {
    return this.#first;
  }

  get end(): number {
    return this.#end;
  }

  get length(): number {
    return this.#end - this.#first;
  }

  /** Adds lines. One whose `seq` is not after the last one of its source was added before, and is left out. */
  push(lines: readonly NewLine[]): void {
    let added = 0;
    for (const line of lines) if (this.#add(line)) added += 1;
    if (added > 0) for (const listener of this.#listeners) listener();
  }

  #add({ text, at, level, source, sourceId = source, seq, mark }: NewLine): boolean {
    if (seq >= 0) {
      const last = this.#lastSeq.get(sourceId);
      if (last !== undefined && seq <= last) return false;
      this.#lastSeq.set(sourceId, seq);
    }
    if (this.length === this.capacity) this.#drop();
    const slot = this.#end % this.capacity;
    this.#texts[slot] = text;
    this.#chars += text.length;
    this.#instants[slot] = at;
    this.#seqs[slot] = seq;
    this.#levels[slot] = levels.indexOf(level);
    this.#marks[slot] = marks.indexOf(mark);
    this.#sources[slot] = this.#indexOf(source);
    this.#end += 1;
    while (this.#chars > mostChars && this.length > 1) this.#drop();
    return true;
  }

  /** Lets the oldest line go. */
  #drop(): void {
    const slot = this.#first % this.capacity;
    this.#chars -= this.#texts[slot]?.length ?? 0;
    this.#texts[slot] = '';
    this.#first += 1;
  }

  #indexOf(source: string): number {
    let index = this.#sourceIndex.get(source);
    if (index === undefined) {
      index = this.#sourceNames.push(source) - 1;
      this.#sourceIndex.set(source, index);
    }
    return index;
  }

  /** The line of a number; `undefined` if it has left the ring or has not come yet. */
  at(number: number): LogLine | undefined {
    if (number < this.#first || number >= this.#end) return undefined;
    const slot = number % this.capacity;
    return {
      text: this.#texts[slot] ?? '',
      at: this.#instants[slot] ?? 0,
      level: levels[this.#levels[slot] ?? 1] ?? 'info',
      source: this.#sourceNames[this.#sources[slot] ?? 0] ?? '',
      seq: this.#seqs[slot] ?? -1,
      mark: marks[this.#marks[slot] ?? 0] ?? 'line',
    };
  }

  /** The text of a line without an object for it, as a search reads it. */
  textAt(number: number): string {
    return number < this.#first || number >= this.#end ? '' : (this.#texts[number % this.capacity] ?? '');
  }

  isStep(number: number): boolean {
    return number >= this.#first && number < this.#end && this.#marks[number % this.capacity] === marks.indexOf('step');
  }

  /** Whether lines come from more than one source. */
  get hasSources(): boolean {
    return this.#sourceNames.length > 1;
  }

  clear(): void {
    this.#texts.length = 0;
    this.#chars = 0;
    this.#first = this.#end;
    this.#lastSeq.clear();
    for (const listener of this.#listeners) listener();
  }

  /** Calls back after lines were added, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** All held lines as a file has them. */
  asText(): string {
    const lines: string[] = [];
    for (let number = this.#first; number < this.#end; number += 1) lines.push(plainText(this.textAt(number)));
    return lines.map((line) => `${line}\n`).join('');
  }
}
