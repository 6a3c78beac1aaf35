/** One that waits and has not asked for this long has lost its place in the line. */
export const forgottenMs = 20_000;

/**
 * Bounds how many attempts go on at once, in the order in which they asked first. One that gets no turn asks again: its
 * place in the line is kept as long as it does.
 */
export class Turns {
  readonly #atOnce: number;
  readonly #taken = new Set<string>();
  /** When each that waits asked last; the first in the line first. */
  readonly #line = new Map<string, number>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /**
   * The turn of that key, which its disposal ends; `undefined`: it is to ask again.
   *
   * @param now on a monotonic clock, in milliseconds
   */
  take(key: string, now: number): Disposable | undefined {
    if (this.#waits(key, now)) {
      this.#line.set(key, now);
      return undefined;
    }
    this.#line.delete(key);
    this.#taken.add(key);
    return { [Symbol.dispose]: () => void this.#taken.delete(key) };
  }

  /** Whether those before it in the line take all that is free. */
  #waits(key: string, now: number): boolean {
    let free = this.#atOnce - this.#taken.size;
    for (const [one, asked] of this.#line) {
      if (free <= 0 || one === key) break;
      if (now - asked > forgottenMs) this.#line.delete(one);
      else free -= 1;
    }
    return free <= 0;
  }
}
