import type { Clock } from '../../time/clock.ts';

const windowMs = 3_600_000;
/** This number of removals is always permitted. */
const few = 2;

/**
 * Limits the removals by a control plane that did not prove itself: within an hour, half of the items that were desired
 * at its beginning, but at least two. A control plane that removes everything may be an impostor.
 */
export class RemovalGuard {
  readonly #clock: Clock;
  #window = { since: Number.NEGATIVE_INFINITY, total: 0, removed: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns true and counts them if `count` of the `total` desired items may be removed now. */
  admits(count: number, total: number): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#window.since > windowMs) this.#window = { since: now, total, removed: 0 };
    const removed = this.#window.removed + count;
    if (removed > Math.max(few, Math.floor(this.#window.total / 2))) return false;
    this.#window.removed = removed;
    return true;
  }
}
