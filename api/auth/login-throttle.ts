import type { Clock } from '../../time/clock.ts';
import { foldName } from '../../store/fold-name.ts';
import { tooMany } from '../ground/api-error.ts';

const windowMs = 15 * 60_000;
const perAccount = 10;
const perAddress = 50;
const maxKeys = 100_000;
const maxWaiting = 64;

export interface LoginThrottle {
  /**
   * Runs one attempt. A result of `undefined` is a failed login; an error is not counted. An attempt that might exceed
   * the limit waits until another one has ended: many attempts at once are no more guesses than one after another.
   *
   * @throws ApiError TOO_MANY_REQUESTS after too many failures of the account or from the address; any error of
   *   `run`.
   */
  attempt<T>(account: string, address: string, run: () => Promise<T | undefined>): Promise<T | undefined>;
}

/** The key under which failures of an account are counted. */
export function accountOf(tenant: string, email: string): string {
  return `${tenant} ${foldName(email)}`;
}

/** Failures of one account or address, oldest first, and the number of attempts under way. */
interface Tally {
  failures: number[];
  pending: number;
}

/** Counts failed logins in memory, in a sliding window. */
export function createLoginThrottle(clock: Clock): LoginThrottle {
  const tallies = new Map<string, Tally>();
  let waiting: (() => void)[] = [];

  const tallyOf = (key: string): Tally => {
    const now = clock.monotonic();
    const known = tallies.get(key);
    if (known !== undefined) {
      known.failures = known.failures.filter((at) => now - at < windowMs);
      return known;
    }
    if (tallies.size >= maxKeys) forgetOne();
    const fresh = { failures: [], pending: 0 };
    tallies.set(key, fresh);
    return fresh;
  };

  const forgetOne = (): void => {
    for (const [key, { pending }] of tallies) {
      if (pending > 0) continue;
      tallies.delete(key);
      return;
    }
  };

  /** Whether one more attempt may start. @throws ApiError if the limit is reached by failures alone. */
  const hasRoom = ({ failures, pending }: Tally, limit: number): boolean => {
    const [first] = failures;
    if (failures.length >= limit && first !== undefined)
      throw tooMany('Too many failed logins', Math.max(1, Math.ceil((first + windowMs - clock.monotonic()) / 1000)));
    return failures.length + pending < limit;
  };

  return {
    async attempt(account, address, run) {
      const [own, shared] = [tallyOf(`account ${account}`), tallyOf(`address ${address}`)];
      while (!hasRoom(own, perAccount) || !hasRoom(shared, perAddress)) {
        if (waiting.length >= maxWaiting) throw tooMany('Too many logins at once', 1);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      const both = [own, shared];
      for (const tally of both) tally.pending += 1;
      try {
        const result = await run();
        if (result === undefined) for (const tally of both) tally.failures.push(clock.monotonic());
        return result;
      } finally {
        for (const tally of both) tally.pending -= 1;
        const woken = waiting;
        waiting = [];
        for (const wake of woken) wake();
      }
    },
  };
}
