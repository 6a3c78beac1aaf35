import type { Clock } from '../agent-protocol/clock.ts';

const windowMs = 3_600_000;
/** So few are always removed. */
const few = 2;

/**
 * How much a control plane that did not prove itself may have removed: within an hour half of what was desired at its
 * beginning, or two. One that says that all is to go may be an impostor.
 */
export class RemovalGuard {
  readonly #clock: Clock;
  #window = { since: Number.NEGATIVE_INFINITY, total: 0, removed: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether `count` of the `total` that are desired may go now; counts them if so. */
  admits(count: number, total: number): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#window.since > windowMs) this.#window = { since: now, total, removed: 0 };
    const removed = this.#window.removed + count;
    if (removed > Math.max(few, Math.floor(this.#window.total / 2))) return false;
    this.#window.removed = removed;
    return true;
  }
}
