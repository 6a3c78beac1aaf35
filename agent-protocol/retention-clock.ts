import type { Clock } from '../time/clock.ts';

/** How many times faster than monotonic time it follows a wall clock that is ahead. */
const catchUp = 2;

/**
 * The time that retention uses to judge the age of stored records, in milliseconds since 1970. It is the wall clock,
 * but follows a clock that jumps ahead at only twice the pace of time: an operator can notice a wrong clock before
 * records are removed. `newest` is the time of the newest record at the start: the clock may have jumped before.
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
