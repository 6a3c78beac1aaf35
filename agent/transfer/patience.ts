import { RuntimeFailure } from '../runtime/runtime.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { RequestFailed } from './bucket-request.ts';

/** The time for which a transfer may be in trouble, taken together. */
const troubleMs = 60 * 60_000;
const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** A service that refuses so many fresh addresses in a row refuses all. */
const maxRefusals = 4;

/** What a transfer bears: it tries again while the trouble of all its parts, taken together, has lasted below an hour. */
export class Patience {
  readonly #clock: Clock;
  readonly #random: () => number;
  /** Parts that failed and did not succeed since. */
  readonly #troubled = new Set<number>();
  #since = 0;
  #spentMs = 0;

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Milliseconds of trouble that it still bears. */
  get leftMs(): number {
    const now = this.#troubled.size > 0 ? this.#clock.monotonic() - this.#since : 0;
    return Math.max(0, troubleMs - this.#spentMs - now);
  }

  /** The part goes on: what it was in is over. */
  recovered(part: number): void {
    if (this.#troubled.delete(part) && this.#troubled.size === 0)
      this.#spentMs += this.#clock.monotonic() - this.#since;
  }

  /**
   * Waits before the part is tried again.
   *
   * @param tries how often it has failed in a row, from 1
   * @throws RuntimeFailure `transfer_failed` if trying again cannot help or has lasted too long; the signal's reason
   */
  async bear(part: number, tries: number, refusals: number, error: unknown, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (error instanceof RuntimeFailure && !error.retryable) throw error;
    const kind = error instanceof RequestFailed ? error.kind : 'passing';
    const words = wordsOf(error);
    if (kind === 'final') throw failure(words, error, false);
    if (refusals >= maxRefusals)
      throw failure(
        `${words}, and so it does with ${maxRefusals} addresses: check the keys of the backup destination, and the clocks of the bucket and of the control plane`,
        error,
        false,
      );
    if (this.#troubled.size === 0) this.#since = this.#clock.monotonic();
    this.#troubled.add(part);
    const pause = Math.min(firstPauseMs * 2 ** Math.min(tries - 1, 10), longestPauseMs) * (0.5 + this.#random() / 2);
    const left = this.leftMs;
    if (left === 0)
      throw failure(
        `${words}. It was tried again for an hour: check that this server reaches the bucket and the control plane`,
        error,
        true,
      );
    await wait(this.#clock, Math.min(pause, left), signal);
  }
}

function failure(message: string, cause: unknown, retryable: boolean): RuntimeFailure {
  return new RuntimeFailure('transfer_failed', message, { cause, retryable });
}

/** What failed, without any address. */
function wordsOf(error: unknown): string {
  if (error instanceof RequestFailed) return error.message;
  const said = error instanceof Error ? error.message : String(error);
  return `The control plane gives no address: ${said.replaceAll(/\b[a-z]+:\/\/\S+/gi, '…').slice(0, 200)}`;
}
