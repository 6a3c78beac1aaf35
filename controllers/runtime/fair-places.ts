/**
 * The places of one queue, divided so that runs which hang leave some to others.
 *
 * A run has a path: who it is for, the outermost first (a tenant, a project of it). It gets a place while each name of its
 * path holds fewer than are left there: of the free ones, and below the first name of those minus what that name holds. One
 * tenant so takes half of the places at most and one project a third, the second tenant half of what the first one left,
 * and so on (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). An empty
 * path is bounded by the places alone.
 */
export class FairPlaces {
  readonly #total: number;
  #taken = 0;
  /** By name. */
  readonly #held = new Map<string, number>();

  constructor(total: number) {
    this.#total = total;
  }

  mayTake(path: readonly string[]): boolean {
    let left = this.#total - this.#taken;
    for (const name of path) {
      const held = this.#held.get(name) ?? 0;
      if (held >= left) return false;
      left -= held;
    }
    return left > 0;
  }

  take(path: readonly string[]): void {
    this.#taken += 1;
    for (const name of path) this.#held.set(name, (this.#held.get(name) ?? 0) + 1);
  }

  leave(path: readonly string[]): void {
    this.#taken -= 1;
    for (const name of path) {
      const left = (this.#held.get(name) ?? 1) - 1;
      if (left > 0) this.#held.set(name, left);
      else this.#held.delete(name);
    }
  }
}
