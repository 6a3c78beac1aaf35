/** An item of a {@link DueHeap}. Only the heap writes `place`. */
export interface Due {
  /** Monotonic milliseconds. */
  due: number;
  /** Position in the heap, −1 while outside. */
  place: number;
}

/** A binary heap by `due`. Items can move and leave in O(log n), so that it never holds stale ones. */
export class DueHeap<T extends Due> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  /** Adds the item, or moves it after its `due` changed. */
  place(item: T): void {
    if (item.place < 0) {
      item.place = this.#items.length;
      this.#items.push(item);
    }
    this.#rise(item);
    this.#sink(item);
  }

  remove(item: T): void {
    const hole = item.place;
    const last = this.#items.pop();
    item.place = -1;
    if (last === undefined || last === item) return;
    this.#set(hole, last);
    this.#rise(last);
    this.#sink(last);
  }

  clear(): void {
    for (const item of this.#items) item.place = -1;
    this.#items.length = 0;
  }

  #set(place: number, item: T): void {
    item.place = place;
    this.#items[place] = item;
  }

  #rise(item: T): void {
    while (item.place > 0) {
      const place = item.place;
      const above = (place - 1) >> 1;
      const parent = this.#items[above];
      if (parent === undefined || parent.due <= item.due) return;
      this.#set(place, parent);
      this.#set(above, item);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const place = item.place;
      const left = this.#items[2 * place + 1];
      const right = this.#items[2 * place + 2];
      const child = right !== undefined && left !== undefined && right.due < left.due ? right : left;
      if (child === undefined || item.due <= child.due) return;
      const below = child.place;
      this.#set(place, child);
      this.#set(below, item);
    }
  }
}
