import type { Clock } from '../time/clock.ts';
import type { Revision } from './revision.ts';
import type { Store } from './store.ts';

/** How long a caller waits for a revision while no change arrives, before the store is asked for a barrier. */
const quietMs = 200;

type State =
  | { is: 'idle' }
  /** A caller waits for a revision. */
  | { is: 'due'; cancel: () => void }
  | { is: 'asked' }
  /** The watch has yet to deliver the barrier; another one would not help. */
  | { is: 'expected'; revision: Revision };

/**
 * Brings the mirror to a revision that is not one of our keys': such a revision reaches no watch by itself. One barrier
 * at a time serves all callers that wait.
 */
export class MirrorBarrier {
  readonly #store: Pick<Store, 'barrier'>;
  readonly #clock: Clock;
  #state: State = { is: 'idle' };
  #applied: Revision;
  #isAwaited = false;
  #isClosed = false;

  constructor(store: Pick<Store, 'barrier'>, clock: Clock, applied: Revision) {
    this.#store = store;
    this.#clock = clock;
    this.#applied = applied;
  }

  /** A caller waits for a revision that is not applied. */
  awaited(): void {
    this.#isAwaited = true;
    if (this.#state.is === 'idle') this.#due();
  }

  /** No caller waits any more. */
  unawaited(): void {
    this.#isAwaited = false;
    if (this.#state.is !== 'due') return;
    this.#state.cancel();
    this.#state = { is: 'idle' };
  }

  /** The mirror moved. `isAwaited`: a caller still waits. `anew`: it was filled, so no older barrier is expected. */
  moved(applied: Revision, isAwaited: boolean, anew = false): void {
    this.#applied = applied;
    if (this.#state.is === 'due') this.unawaited();
    if (this.#state.is === 'expected' && (anew || applied >= this.#state.revision)) this.#state = { is: 'idle' };
    if (isAwaited) this.awaited();
    else this.unawaited();
  }

  close(): void {
    this.#isClosed = true;
    this.unawaited();
  }

  #due(): void {
    if (this.#isClosed) return;
    this.#state = { is: 'due', cancel: this.#clock.timer(quietMs, () => void this.#ask()) };
  }

  async #ask(): Promise<void> {
    this.#state = { is: 'asked' };
    try {
      const revision = await this.#store.barrier();
      this.#state = this.#applied < revision ? { is: 'expected', revision } : { is: 'idle' };
    } catch {
      this.#state = { is: 'idle' }; // for a caller that still waits, another one is tried below
    }
    if (this.#state.is === 'idle' && this.#isAwaited) this.#due();
  }
}
