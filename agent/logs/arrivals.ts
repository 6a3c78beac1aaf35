import type { Clock } from '../../time/clock.ts';

/**
 * The order in which lines of all workloads arrive, as times in milliseconds since 1970 that never go back. Lines that
 * arrive in the same millisecond have the same time.
 */
export class Arrivals {
  readonly #clock: Clock;
  #last = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The arrival of a line that is written now: never before the time of the line. */
  of({ at }: { at: number }): number {
    this.#last = Math.max(this.#last, this.#clock.now().getTime(), at);
    return this.#last;
  }

  /**
   * A stored line has this arrival. Those from now on are later, also if the clock was set back meanwhile: a reader may
   * have the stored line, and with the same arrival a line of another workload could be before it.
   */
  seen(arrived: number): void {
    this.#last = Math.max(this.#last, arrived + 1);
  }

  /** A time after all arrivals until now, and not after any later one. */
  cut(): number {
    this.#last = Math.max(this.#last, this.#clock.now().getTime()) + 1;
    return this.#last;
  }
}
