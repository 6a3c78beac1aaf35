import type { Clock } from '../../time/clock.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import { deadline } from '../runtime/deadline.ts';

/** Numbers of parts → signed addresses, in the same order. It may fail while the control plane is away. */
export type SignParts = (numbers: readonly number[], signal: AbortSignal) => Promise<readonly string[]>;

/** Addresses that one call asks for. */
const batchParts = 16;
const signMs = 60_000;

/** Waits for an answer of the control plane. @throws Error if none comes within a minute; what it throws; the signal's reason */
export async function signedWithin<T>(
  sign: (signal: AbortSignal) => Promise<T>,
  clock: Clock,
  signal: AbortSignal,
): Promise<T> {
  using limit = deadline(clock, signMs, 'Its answer', signal);
  return await unlessAborted(sign(limit.signal), limit.signal);
}

/** The addresses of the parts of an upload, asked for in batches, ahead of their use; each is used once. */
export class SignedAddresses {
  readonly #sign: SignParts;
  readonly #lastPart: number;
  readonly #clock: Clock;
  readonly #ready = new Map<number, string>();
  #asking: Promise<void> | undefined;

  constructor(sign: SignParts, lastPart: number, clock: Clock) {
    this.#sign = sign;
    this.#clock = clock;
    this.#lastPart = lastPart;
  }

  /** An address of that part. @throws what the call throws */
  async of(part: number, signal: AbortSignal): Promise<string> {
    for (;;) {
      const address = this.#ready.get(part);
      if (address !== undefined) return address;
      // parts that begin together wait for one batch
      if (this.#asking === undefined) await this.#ask(part, signal);
      else await this.#asking;
    }
  }

  /** The part is done: its address is needed no more. */
  used(part: number): void {
    this.#ready.delete(part);
  }

  /** A service refused an address: so it will those that were signed before it, or with it. */
  refused(part: number, address: string): void {
    if (this.#ready.get(part) === address) this.#ready.clear();
  }

  #ask(part: number, signal: AbortSignal): Promise<void> {
    const count = Math.min(batchParts, this.#lastPart - part + 1);
    const numbers = Array.from({ length: count }, (_, index) => part + index).filter((it) => !this.#ready.has(it));
    const done = signedWithin((limit) => this.#sign(numbers, limit), this.#clock, signal)
      .then((addresses) => {
        if (addresses.length !== numbers.length)
          throw new Error(`it sent ${addresses.length} addresses, and not ${numbers.length}`);
        for (const [index, address] of addresses.entries()) this.#ready.set(numbers[index] ?? 0, address);
      })
      .finally(() => {
        this.#asking = undefined;
      });
    this.#asking = done;
    return done;
  }
}
