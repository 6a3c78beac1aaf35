import type { Clock } from '../../time/clock.ts';

/**
 * Passes values on at most once per `everyMs`: the first one at once, of those that follow too soon only the last. A
 * value that is still held back when this is disposed is dropped.
 */
export class Paced<T> implements Disposable {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #pass: (value: T) => void;
  #held: { value: T } | undefined;
  #cancelTimer: (() => void) | undefined;
  #isOver = false;

  constructor(clock: Clock, everyMs: number, pass: (value: T) => void) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#pass = pass;
  }

  next(value: T): void {
    if (this.#isOver) return;
    if (this.#cancelTimer === undefined) this.#passOn(value);
    else this.#held = { value };
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#cancelTimer?.();
  }

  #passOn(value: T): void {
    this.#held = undefined;
    this.#cancelTimer = this.#clock.timer(this.#everyMs, () => {
      this.#cancelTimer = undefined;
      if (this.#held !== undefined) this.#passOn(this.#held.value);
    });
    this.#pass(value);
  }
}
