import type { Clock } from '../../store/clock.ts';
import { tooMany } from '../api-error.ts';

const windowMs = 15 * 60_000;
const perAccount = 10;
const perAddress = 50;
const maxKeys = 100_000;

/** One attempt that was let through; it counts as a failure until it is told to have succeeded. */
export interface LoginAttempt {
  succeeded(): void;
}

export interface LoginThrottle {
  /** @throws ApiError TOO_MANY_REQUESTS after too many failures of the account or from the address. */
  attempt(account: string, address: string): LoginAttempt;
}

/**
 * Counts failed logins in memory, in a sliding window. An attempt counts from its beginning, so that many at once
 * cannot slip through before the first has failed.
 */
export function createLoginThrottle(clock: Clock): LoginThrottle {
  const failures = new Map<string, number[]>();

  const recent = (key: string, now: number): number[] => {
    const kept = (failures.get(key) ?? []).filter((at) => now - at < windowMs);
    failures.delete(key);
    if (failures.size >= maxKeys) {
      const [oldest] = failures.keys();
      if (oldest !== undefined) failures.delete(oldest);
    }
    failures.set(key, kept);
    return kept;
  };

  const check = (times: readonly number[], limit: number, now: number): void => {
    const [first] = times;
    if (times.length < limit || first === undefined) return;
    throw tooMany('Too many failed logins', Math.max(1, Math.ceil((first + windowMs - now) / 1000)));
  };

  return {
    attempt(account, address) {
      const now = clock.monotonic();
      const keys = [`account ${account}`, `address ${address}`] as const;
      const [ofAccount, ofAddress] = [recent(keys[0], now), recent(keys[1], now)];
      check(ofAccount, perAccount, now);
      check(ofAddress, perAddress, now);
      ofAccount.push(now);
      ofAddress.push(now);
      return {
        succeeded() {
          for (const key of keys) forget(failures.get(key) ?? [], now);
        },
      };
    },
  };
}

function forget(times: number[], at: number): void {
  const index = times.indexOf(at);
  if (index !== -1) times.splice(index, 1);
}
