import type { Clock } from '../../time/clock.ts';

interface Timer {
  due: number;
  order: number;
  fn: () => void;
}

/**
 * A clock that moves only when told. Timers fire in the order of their due times, ties in the order of their making;
 * between two of them everything that became runnable runs.
 */
export class FakeClock implements Clock {
  #monotonic = 0;
  #wall: number;
  #order = 0;
  readonly #timers = new Set<Timer>();
  readonly #rest: () => Promise<void>;

  /** `rest` lets everything run that waits for no time. */
  constructor(start = '2030-01-01T00:00:00.000Z', rest: () => Promise<void> = settle) {
    this.#wall = Date.parse(start);
    this.#rest = rest;
  }

  now(): Date {
    return new Date(this.#wall);
  }

  monotonic(): number {
    return this.#monotonic;
  }

  timer(ms: number, fn: () => void): () => void {
    const timer = { due: this.#monotonic + Math.max(0, ms), order: this.#order++, fn };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Timers that did not fire yet. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Moves both times by `ms`, firing what becomes due on the way. */
  async advance(ms: number): Promise<void> {
    await this.#rest();
    const end = this.#monotonic + ms;
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) await this.#fire(next);
    this.#moveTo(end);
    await this.#rest();
  }

  /** Moves to the next timer and fires it; without one within `mostMs`, moves by so much. */
  async step(mostMs: number): Promise<void> {
    await this.#rest();
    const next = this.#next(this.#monotonic + mostMs);
    if (next === undefined) this.#moveTo(this.#monotonic + mostMs);
    else await this.#fire(next);
  }

  /** Moves the wall clock alone, as an operator or NTP does. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  async #fire(timer: Timer): Promise<void> {
    this.#timers.delete(timer);
    this.#moveTo(timer.due);
    timer.fn();
    await this.#rest();
  }

  #moveTo(monotonic: number): void {
    this.#wall += monotonic - this.#monotonic;
    this.#monotonic = monotonic;
  }

  #next(end: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (
        timer.due <= end &&
        (first === undefined || timer.due < first.due || (timer.due === first.due && timer.order < first.order))
      )
        first = timer;
    return first;
  }
}

/** Lets everything run that waits for no time and no input: microtasks, and the turns of the event loop they ask for. */
export async function settle(turns = 10): Promise<void> {
  for (let n = 0; n < turns; n++) await new Promise((resolve) => setImmediate(resolve));
}
