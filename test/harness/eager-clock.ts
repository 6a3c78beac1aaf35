import type { Clock } from '../../time/clock.ts';

/** Real time, but no timer lasts longer than a turn of the event loop: for tests in which only the order counts. */
export const eagerClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  timer(_, fn) {
    const handle = setImmediate(fn);
    return () => clearImmediate(handle);
  },
};
