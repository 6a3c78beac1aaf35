/**
 * Bounds how often a key runs: `burst` runs at once, then one every `everyMs`. It is the generic cell rate algorithm,
 * which needs one instant per key (https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm).
 */
export class KeyPace {
  readonly #everyMs: number;
  readonly #burst: number;
  /** When the runs of a key would have ended at one per `everyMs`; in the order of the last runs. */
  readonly #spent = new Map<string, number>();

  constructor({ everyMs, burst }: { everyMs: number; burst: number }) {
    this.#everyMs = everyMs;
    this.#burst = burst;
  }

  /** Keys whose past runs still count. */
  get size(): number {
    return this.#spent.size;
  }

  /** The earliest instant at which the key may run; in the past for a key that runs seldom. */
  earliest(key: string): number {
    const spent = this.#spent.get(key);
    return spent === undefined ? -Infinity : spent - (this.#burst - 1) * this.#everyMs;
  }

  /** Counts a run that begins now. */
  count(key: string, now: number): void {
    const spent = Math.max(now, this.#spent.get(key) ?? -Infinity) + this.#everyMs;
    this.#spent.delete(key);
    this.#spent.set(key, spent);
    this.#forget(now);
  }

  /** Forgets up to two keys whose past runs count no longer: each run adds one key at most, so that they do not pile up. */
  #forget(now: number): void {
    let looked = 0;
    for (const [key, spent] of this.#spent) {
      if (spent > now || looked === 2) return;
      this.#spent.delete(key);
      looked += 1;
    }
  }
}
