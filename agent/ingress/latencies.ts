import { latencyError } from '../../agent-protocol/traffic.ts';

/**
 * Buckets whose bounds grow by the same factor, as those of DDSketch: the middle of a bucket is at most
 * {@link latencyError} of itself away from each value in it. Equal bounds everywhere make histograms addable.
 */
const factor = (1 + latencyError) / (1 - latencyError);
const perUnit = 1 / Math.log(factor);
const leastMs = 0.1;
/** The last bucket has all that is longer than its bound, about an hour. */
export const buckets = 175;

/** The bucket of a latency in milliseconds. */
export function bucketOf(ms: number): number {
  if (!(ms > leastMs)) return 0;
  return Math.min(buckets - 1, Math.ceil(Math.log(ms / leastMs) * perUnit));
}

/** What a latency in that bucket was, in milliseconds. */
export function latencyOf(bucket: number): number {
  return bucket === 0 ? leastMs : (leastMs * 2 * factor ** bucket) / (factor + 1);
}

/** Counts by bucket; buckets without a count are absent. */
export type Latencies = Map<number, number>;

/** The latency that this part of all has at most; `undefined`: there is none. */
export function percentile(cells: Latencies, part: number): number | undefined {
  let all = 0;
  for (const count of cells.values()) all += count;
  let rank = Math.max(1, Math.ceil(part * all));
  for (const [bucket, count] of [...cells].toSorted(([a], [b]) => a - b)) {
    rank -= count;
    if (rank <= 0) return Math.round(latencyOf(bucket) * 100) / 100;
  }
  return undefined;
}
