import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';

export type Paced = { admitted: true } | { admitted: false; retryAfterMs: number };

/**
 * Lets `perSecond` handshakes or reports begin per second. Each one that is sent away gets its own later time, so that
 * a thousand agents that come at once come back one after another.
 */
export function pace(clock: Clock, perSecond: number): () => Paced {
  const stepMs = 1000 / perSecond;
  /** Credit grows with the time since this instant: one handshake per step, at most a second's worth. */
  let since = clock.monotonic() - 1000;
  let lastPlace = 0;

  return () => {
    const now = clock.monotonic();
    since = Math.max(since, now - 1000);
    if (since + stepMs <= now) {
      since += stepMs;
      return { admitted: true };
    }
    lastPlace = Math.max(lastPlace, now) + stepMs;
    return { admitted: false, retryAfterMs: Math.ceil(Math.min(lastPlace - now + stepMs, limits.admission.maxWaitMs)) };
  };
}

/** A pace for each name. Only those of the most recent names are kept. */
export class Paces {
  readonly #clock: Clock;
  readonly #perSecond: number;
  readonly #paces = new Map<string, () => Paced>();

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  begin(name: string): Paced {
    const known = this.#paces.get(name) ?? pace(this.#clock, this.#perSecond);
    this.#paces.delete(name);
    this.#paces.set(name, known);
    const [oldest] = this.#paces.keys();
    if (this.#paces.size > limits.admission.names && oldest !== undefined) this.#paces.delete(oldest);
    return known();
  }
}
