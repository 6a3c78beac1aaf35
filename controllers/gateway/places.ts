/** Places for connections: in all, and for each name that they come under. */
export class Places {
  readonly #bounds: { places: number; placesEach: number };
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(bounds: { places: number; placesEach: number }) {
    this.#bounds = bounds;
  }

  hasRoom(name: string): boolean {
    return this.#all < this.#bounds.places && (this.#taken.get(name) ?? 0) < this.#bounds.placesEach;
  }

  /** Takes a place, also beyond the bounds. Returns a function that gives it back, at most once. */
  take(name: string): () => void {
    this.#all++;
    this.#taken.set(name, (this.#taken.get(name) ?? 0) + 1);
    return () => {
      this.#all--;
      const left = (this.#taken.get(name) ?? 0) - 1;
      if (left > 0) this.#taken.set(name, left);
      else this.#taken.delete(name);
    };
  }
}
