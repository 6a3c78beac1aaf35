const blockSize = 256;

/**
 * How many rows the items of a list take, with sums per block of 256, so that the item at a row is found without adding
 * up all of them. Items have numbers from `first` on; the oldest leave at the front and new ones come at the end.
 */
export class RowSums {
  readonly #rows = new Map<number, Uint32Array>();
  readonly #sums = new Map<number, number>();
  #first = 0;
  #end = 0;
  #total = 0;

  get total(): number {
    return this.#total;
  }

  get first(): number {
    return this.#first;
  }

  get end(): number {
    return this.#end;
  }

  /** Begins again with the items `first` to `end`. */
  reset(first: number, end: number, rowsOf: (number: number) => number): void {
    this.#rows.clear();
    this.#sums.clear();
    this.#first = first;
    this.#end = first;
    this.#total = 0;
    this.advance(first, end, rowsOf);
  }

  /** Drops what is before `first`, and adds what came up to `end`. */
  advance(first: number, end: number, rowsOf: (number: number) => number): void {
    for (; this.#end < end; this.#end += 1) this.#set(this.#end, rowsOf(this.#end));
    for (; this.#first < Math.min(first, this.#end); this.#first += 1) {
      this.#set(this.#first, 0);
      if ((this.#first + 1) % blockSize === 0) {
        this.#rows.delete(Math.floor(this.#first / blockSize));
        this.#sums.delete(Math.floor(this.#first / blockSize));
      }
    }
  }

  #set(number: number, rows: number): void {
    const block = Math.floor(number / blockSize);
    let own = this.#rows.get(block);
    if (own === undefined) {
      own = new Uint32Array(blockSize);
      this.#rows.set(block, own);
    }
    const change = rows - (own[number % blockSize] ?? 0);
    own[number % blockSize] = rows;
    this.#sums.set(block, (this.#sums.get(block) ?? 0) + change);
    this.#total += change;
  }

  /** The item that a row belongs to, and the first row of that item. The last item for a row beyond the end. */
  itemAt(row: number): { number: number; top: number } {
    let top = 0;
    for (let block = Math.floor(this.#first / blockSize); block * blockSize < this.#end; block += 1) {
      const sum = this.#sums.get(block) ?? 0;
      if (top + sum <= row) {
        top += sum;
        continue;
      }
      const own = this.#rows.get(block);
      for (let at = 0; at < blockSize; at += 1) {
        const rows = own?.[at] ?? 0;
        if (top + rows > row) return { number: block * blockSize + at, top };
        top += rows;
      }
    }
    return { number: this.#end, top };
  }

  /** The first row of an item. */
  topOf(number: number): number {
    let top = 0;
    const own = Math.floor(number / blockSize);
    for (let block = Math.floor(this.#first / blockSize); block < own; block += 1) top += this.#sums.get(block) ?? 0;
    const rows = this.#rows.get(own);
    for (let at = 0; at < number % blockSize; at += 1) top += rows?.[at] ?? 0;
    return top;
  }

  rowsOf(number: number): number {
    return this.#rows.get(Math.floor(number / blockSize))?.[number % blockSize] ?? 0;
  }
}
