import type { Clock } from './clock.ts';

/** Calls `act` every `ms` milliseconds from now on. Returns a function that stops it, also from within `act`. */
export function every(clock: Clock, ms: number, act: () => void): () => void {
  let stopped = false;
  let cancel = clock.timer(ms, tick);
  function tick(): void {
    act();
    if (!stopped) cancel = clock.timer(ms, tick);
  }
  return () => {
    stopped = true;
    cancel();
  };
}
