/**
 * A position in the one history of a store. Strictly increasing, never reused within an incarnation.
 * etcd counts in int64; every adapter asserts that the value is at most 2^53 - 1.
 */
export type Revision = number & { readonly __brand: 'Revision' };

/**
 * Brands a number as a revision.
 *
 * @throws RangeError if the value is no integer in 0 … 2^53 - 1.
 */
export function revision(value: number | string): Revision {
  const n = typeof value === 'string' ? Number(value) : value;
  if (!Number.isSafeInteger(n) || n < 0)
    throw new RangeError(`Revision must be an integer in 0 … 2^53 - 1: got ${value}`);
  return n as Revision; // the only place that brands
}
