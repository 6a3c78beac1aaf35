import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';

/**
 * Bounds the bytes that are read of one agent, over all of its sessions: a bucket that holds `burst` and fills with
 * `perSecond`. It is the generic cell rate algorithm, which needs one instant
 * (https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm).
 */
export class ByteBudget {
  readonly #clock: Clock;
  /** When all that was read would have been read at `perSecond`. */
  #spentUntil = -Infinity;
  #restUntil = -Infinity;
  #pausedMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds for which nothing was to be read, since the budget is kept. */
  get pausedMs(): number {
    return this.#pausedMs;
  }

  /** Counts a frame; answers with the milliseconds for which nothing is to be read after it. */
  take(frame: string | Uint8Array): number {
    const { perSecond, burst, messageWeight, frameBytes } = limits.bytes;
    const cost = frameBytes + (typeof frame === 'string' ? messageWeight : 1) * frame.length;
    const now = this.#clock.monotonic();
    this.#spentUntil = Math.max(now, this.#spentUntil) + (1000 * cost) / perSecond;
    const restUntil = this.#spentUntil - (1000 * burst) / perSecond;
    if (restUntil <= now) return 0;
    this.#pausedMs += restUntil - Math.max(now, this.#restUntil);
    this.#restUntil = restUntil;
    return restUntil - now;
  }
}

/** The budget of each server. Only those of the servers that came last are kept. */
export class ByteBudgets {
  readonly #clock: Clock;
  readonly #budgets = new Map<string, ByteBudget>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of(name: string): ByteBudget {
    const known = this.#budgets.get(name);
    if (known !== undefined) return known;
    const budget = new ByteBudget(this.#clock);
    this.#budgets.set(name, budget);
    const [oldest] = this.#budgets.keys();
    if (this.#budgets.size > limits.admission.names && oldest !== undefined) this.#budgets.delete(oldest);
    return budget;
  }
}
