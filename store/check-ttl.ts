const shortestMs = 1000;
/** The longest timer of the platform. */
const longestMs = 2 ** 31 - 1;

/** @throws RangeError for a time to live that a lease cannot have. */
export function checkTtl(ttlMs: number): void {
  if (!(ttlMs >= shortestMs && ttlMs <= longestMs))
    throw new RangeError(`A lease lives for ${shortestMs} … ${longestMs} ms: got ${ttlMs}`);
}
