import type { Clock } from '../../time/clock.ts';
import type { Limit } from '../ground/config.ts';

/** The state of a client's limit, as in the `RateLimit-*` headers. */
export interface Quota {
  limit: number;
  remaining: number;
  /** Seconds until the bucket is full. */
  reset: number;
  /** Seconds until the next token; present if the request got none. */
  retryAfter?: number;
}

interface Bucket {
  tokens: number;
  at: number;
}

/** The key of the requests and of the streams of a user. */
export function keyOfUser(tenant: string, userId: string): string {
  return `${tenant} user/${userId}`;
}

const maxBuckets = 50_000;

/** A token bucket per key, in memory. Takes a token and returns what is left; `undefined` if the limit is off. */
export function createRateLimit(limit: Limit, clock: Clock): (key: string) => Quota | undefined {
  const buckets = new Map<string, Bucket>();
  const perMs = limit.perMinute / 60_000;

  const refilled = (key: string, now: number): Bucket => {
    const bucket = buckets.get(key);
    if (bucket === undefined) {
      if (buckets.size >= maxBuckets) forgetFull(now);
      const fresh = { tokens: limit.burst, at: now };
      buckets.set(key, fresh);
      return fresh;
    }
    bucket.tokens = Math.min(limit.burst, bucket.tokens + (now - bucket.at) * perMs);
    bucket.at = now;
    return bucket;
  };

  /** A full bucket is dropped, as it equals none; if no bucket is full, the oldest is dropped. */
  const forgetFull = (now: number): void => {
    for (const [key, bucket] of buckets) {
      if (bucket.tokens + (now - bucket.at) * perMs >= limit.burst) buckets.delete(key);
    }
    const [oldest] = buckets.keys();
    if (buckets.size >= maxBuckets && oldest !== undefined) buckets.delete(oldest);
  };

  return (key) => {
    if (limit.perMinute === 0) return undefined;
    const bucket = refilled(key, clock.monotonic());
    const isEmpty = bucket.tokens < 1;
    if (!isEmpty) bucket.tokens -= 1;
    return {
      limit: limit.perMinute,
      remaining: Math.floor(bucket.tokens),
      reset: Math.ceil((limit.burst - bucket.tokens) / perMs / 1000),
      ...(isEmpty && { retryAfter: Math.max(1, Math.ceil((1 - bucket.tokens) / perMs / 1000)) }),
    };
  };
}
