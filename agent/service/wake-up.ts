import type { Clock } from '../../time/clock.ts';

/** Lets a loop sleep. A wake while the loop works is not lost: the next sleep ends at once. */
export class WakeUp {
  readonly #clock: Clock;
  #isWoken = false;
  #end: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wake(): void {
    this.#isWoken = true;
    this.#end();
  }

  /** Call it before the loop looks at the world: only later wakes end the next sleep. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Resolves at the monotonic time `until`, if there is one, or with the next wake. */
  sleep(until: number | undefined): Promise<void> {
    if (this.#isWoken) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel =
        until === undefined
          ? () => undefined
          : this.#clock.timer(Math.max(0, until - this.#clock.monotonic()), () => this.wake());
      this.#end = () => {
        cancel();
        this.#end = () => undefined;
        resolve();
      };
    });
  }
}
