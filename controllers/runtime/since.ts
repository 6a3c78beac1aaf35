import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';

/**
 * Since when named conditions of objects hold, on the monotonic clock of this process.
 *
 * It lives as long as one term of the leader and is lost with it: see the caveat at `Context.since`. Its bound is the
 * number of keys times {@link limits.since.names}.
 */
export class Since {
  readonly #clock: Clock;
  readonly #begun = new Map<string, Map<string, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * For how many milliseconds the condition `name` of `key` has held without a break; 0 while it does not hold and at
   * the first call that finds it to hold.
   */
  ms(key: string, name: string, isOn: boolean): number {
    const begun = this.#begun.get(key);
    if (!isOn) {
      begun?.delete(name);
      if (begun?.size === 0) this.#begun.delete(key);
      return 0;
    }
    const now = this.#clock.monotonic();
    const at = begun?.get(name);
    if (at !== undefined) return now - at;
    if (begun === undefined) this.#begun.set(key, new Map([[name, now]]));
    else if (begun.size < limits.since.names) begun.set(name, now);
    else throw new RangeError(`Cannot keep more than ${limits.since.names} conditions of one object: ${key}, ${name}`);
    return 0;
  }

  forget(key: string): void {
    this.#begun.delete(key);
  }

  keys(): Iterable<string> {
    return this.#begun.keys();
  }
}
