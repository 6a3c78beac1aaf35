import type { ListOptions } from './store.ts';

/** @throws RangeError for a limit that is no positive integer, which some backends take for "no limit". */
export function checkList({ limit }: ListOptions): void {
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0))
    throw new RangeError(`The limit of a page is a positive integer: got ${limit}`);
}
