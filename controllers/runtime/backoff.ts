import { limits } from './limits.ts';

/**
 * Milliseconds to wait after the n-th failure in a row (from 0): uniform in [cap/2, cap] with
 * `cap = min(5 min, 200 ms · 2ⁿ)`. The jitter lies below the cap: clamped at the cap it would have no effect.
 *
 * @param random uniform in [0, 1)
 */
export function backoff(failures: number, random: () => number): number {
  const { backoffFirstMs, backoffMaxMs } = limits.reconcile;
  const cap = Math.min(backoffMaxMs, backoffFirstMs * 2 ** Math.min(failures, 30));
  return cap / 2 + (random() * cap) / 2;
}
