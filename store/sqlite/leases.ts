import type { Clock } from '../../time/clock.ts';
import { unavailable } from '../errors.ts';
import type { Lease, LeaseId } from '../store.ts';

/** Share of the time to live after which an unrenewed lease counts as lost by its holder. */
const lostAfter = 0.85;
const expiryRetryMs = 1000;

interface Held {
  abort: AbortController;
  renewedAt: number;
  cancelTimer: () => void;
}

/**
 * The leases of this process, which is the only one on the file. A renewal only reads the clock: a lease is lost when
 * the event loop stood still for longer than the lease allows.
 */
export class Leases {
  readonly #clock: Clock;
  readonly #opening: number;
  readonly #expire: (id: LeaseId) => Promise<void>;
  readonly #held = new Map<LeaseId, Held>();
  /** Lost leases whose keys are not deleted yet. */
  readonly #ending = new Set<LeaseId>();
  #granted = 0;
  #closed = false;

  /** `expire` deletes the keys of a lease; `opening` keeps ids unique over restarts. */
  constructor(clock: Clock, opening: number, expire: (id: LeaseId) => Promise<void>) {
    this.#clock = clock;
    this.#opening = opening;
    this.#expire = expire;
  }

  isLive(id: LeaseId): boolean {
    const held = this.#held.get(id);
    return held !== undefined && !held.abort.signal.aborted;
  }

  grant(ttlMs: number): Lease {
    this.#granted += 1;
    const id = `${this.#opening}-${this.#granted}` as LeaseId; // minted here
    const held: Held = {
      abort: new AbortController(),
      renewedAt: this.#clock.monotonic(),
      cancelTimer: () => undefined,
    };
    this.#held.set(id, held);
    this.#scheduleRenewal(id, held, ttlMs);
    return {
      id,
      lost: held.abort.signal,
      revoke: async () => {
        if (this.#held.has(id)) this.#lose(id, held, `lease ${id} was revoked`);
        else if (!this.#ending.has(id)) return;
        await this.#end(id);
      },
    };
  }

  /** Stops renewing: from now on every lease counts as lost. Its keys are deleted when the file is opened again. */
  close(): void {
    this.#closed = true;
    for (const [id, held] of this.#held) this.#lose(id, held, `the store of lease ${id} was closed`);
  }

  #scheduleRenewal(id: LeaseId, held: Held, ttlMs: number): void {
    held.cancelTimer = this.#clock.timer(ttlMs / 3, () => {
      const now = this.#clock.monotonic();
      if (now < held.renewedAt + ttlMs * lostAfter) {
        held.renewedAt = now;
        this.#scheduleRenewal(id, held, ttlMs);
        return;
      }
      this.#lose(id, held, `lease ${id} was not renewed within ${ttlMs} ms`);
      this.#end(id).catch(() => undefined); // it is tried again
    });
  }

  #lose(id: LeaseId, held: Held, why: string): void {
    held.cancelTimer();
    this.#held.delete(id);
    this.#ending.add(id);
    held.abort.abort(unavailable(why));
  }

  /** Deletes the keys of a lost lease. If that fails, it rejects and goes on trying until it is done. */
  async #end(id: LeaseId): Promise<void> {
    try {
      await this.#expire(id);
      this.#ending.delete(id);
    } catch (error) {
      this.#endLater(id);
      throw error;
    }
  }

  #endLater(id: LeaseId): void {
    if (this.#closed || !this.#ending.has(id)) return;
    this.#clock.timer(expiryRetryMs, () => {
      this.#expire(id).then(
        () => this.#ending.delete(id),
        () => this.#endLater(id),
      );
    });
  }
}
