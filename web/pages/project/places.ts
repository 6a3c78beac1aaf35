interface Placed {
  readonly it: { readonly id: string };
}

/** The place of each row by the id of its object. */
export function placesOf(rows: readonly Placed[]): ReadonlyMap<string, number> {
  return new Map(rows.map(({ it }, at) => [it.id, at]));
}

/** Rows in the places that they had; what has none yet comes last, in the order in which it is given. */
export function keepingPlaces<T extends Placed>(rows: readonly T[], places: ReadonlyMap<string, number>): readonly T[] {
  const placeOf = ({ it }: T): number => places.get(it.id) ?? places.size;
  return rows.toSorted((a, b) => placeOf(a) - placeOf(b));
}

/** Rows with the smallest rank first; those of one rank stay in their order. */
export function byRank<T>(rows: readonly T[], rankOf: (row: T) => number): T[] {
  const groups = [...Map.groupBy(rows, rankOf)].toSorted(([a], [b]) => a - b);
  return groups.flatMap(([, own]) => own);
}
