/**
 * A sorted list. Reading copies nothing: readers share the array, and a change after a reading goes to a copy. So an
 * array that was read never changes, and a series of changes without readers copies nothing.
 */
export class Ordered<T> {
  readonly #compare: (a: T, b: T) => number;
  #items: T[] = [];
  #shared = false;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get items(): readonly T[] {
    this.#shared = true;
    return this.#items;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  /** A copy of the items from the first that is not `isBefore` up to, but without, the next that is not `isInside`. */
  run(isBefore: (item: T) => boolean, isInside: (item: T) => boolean): T[] {
    const found: T[] = [];
    for (let index = lowerBound(this.#items, isBefore); index < this.#items.length; index++) {
      const item = this.#items[index];
      if (item === undefined || !isInside(item)) break;
      found.push(item);
    }
    return found;
  }

  /** Takes `before` out and puts `after` in; either may be absent. An item is found by its order, not by identity. */
  replace(before: T | undefined, after: T | undefined): void {
    const items = this.#own();
    const from = before === undefined ? undefined : this.#position(before);
    if (from !== undefined && before !== undefined && after !== undefined && this.#compare(before, after) === 0) {
      items[from] = after;
      return;
    }
    if (from !== undefined) items.splice(from, 1);
    if (after !== undefined) items.splice(this.#position(after), 0, after);
  }

  /** Number of items that come before `item`. */
  #position(item: T): number {
    const last = this.#items.at(-1);
    if (last === undefined || this.#compare(last, item) < 0) return this.#items.length;
    return lowerBound(this.#items, (other) => this.#compare(other, item) < 0);
  }

  #own(): T[] {
    if (this.#shared) {
      this.#items = this.#items.slice();
      this.#shared = false;
    }
    return this.#items;
  }
}

/** Index of the first item that is not `isBefore`; the array must begin with all items that are. */
function lowerBound<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const item = items[middle];
    if (item !== undefined && isBefore(item)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The order of UTF-16 code units, for `sort` and {@link Ordered}. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
