/** The last samples of several series, which share their instants. A sample that lacks a series is a hole in it. */
export class SeriesRing {
  readonly capacity: number;
  readonly #times: number[] = [];
  readonly #columns: (number | null)[][];
  readonly #listeners = new Set<() => void>();

  /** By default an hour of samples of five seconds. */
  constructor(columns: number, capacity = 720) {
    this.capacity = capacity;
    this.#columns = Array.from({ length: columns }, () => []);
  }

  /** In seconds of the epoch. */
  get times(): readonly number[] {
    return this.#times;
  }

  column(at: number): readonly (number | null)[] {
    return this.#columns[at] ?? [];
  }

  /** Adds a sample; one that is not newer than the last one is left out. */
  push(seconds: number, values: readonly (number | null)[]): void {
    const last = this.#times.at(-1);
    if (last !== undefined && seconds <= last) return;
    this.#times.push(seconds);
    for (const [at, column] of this.#columns.entries()) column.push(values[at] ?? null);
    if (this.#times.length > this.capacity) {
      this.#times.shift();
      for (const column of this.#columns) column.shift();
    }
    for (const listener of this.#listeners) listener();
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }
}
