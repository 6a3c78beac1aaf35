import type { Clock } from './clock.ts';

/** How much faster than the monotonic time it comes up to a wall clock that is ahead. */
const catchUp = 2;

/**
 * The time by which stored records are judged to be old, in milliseconds since 1970. It is the wall clock's, but one
 * that jumps ahead is come up to at twice the pace of time only: a wrong clock takes nothing away before somebody can
 * notice. `newest` is the time of the newest record when it begins: a clock may have jumped before.
 */
export function retentionClock(clock: Clock, newest: number | undefined): () => number {
  let at = clock.monotonic();
  let time = Math.min(clock.now().getTime(), newest ?? Infinity);
  return () => {
    const now = clock.monotonic();
    time = Math.min(clock.now().getTime(), time + catchUp * (now - at));
    at = now;
    return time;
  };
}
