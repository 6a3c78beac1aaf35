import { Refused } from '../api.ts';

const firstRetryMs = 500;
const maxRetryMs = 15_000;

/**
 * Milliseconds until what failed is tried again; `undefined` if that cannot help, as the server has refused it. There was
 * no answer, or the server is busy. `failures`: those before this one.
 */
export function pauseAfter(error: unknown, failures: number): number | undefined {
  if (error instanceof Refused && error.status !== 429 && error.status < 500) return undefined;
  const pauseMs = Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(failures, 10)) * Math.random();
  const leastMs = error instanceof Refused ? (error.retryAfter ?? 0) * 1000 : 0;
  return Math.max(pauseMs, leastMs);
}
