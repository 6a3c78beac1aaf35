import type { Revision } from '../../store/revision.ts';
import type { Batch, KeyRange } from '../../store/store.ts';
import { ForwardingStore } from './forwarding-store.ts';

/** A real store whose watches can be held back, so that a mirror on it falls behind while everything else goes on. */
export class LaggingStore extends ForwardingStore {
  #gate: PromiseWithResolvers<void> | undefined;

  /** From now on watches deliver nothing. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  /** Watches deliver what was held back, and go on. */
  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  override async *watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncGenerator<Batch, void, void> {
    for await (const batch of super.watch(range, from, signal)) {
      await this.#gate?.promise;
      yield batch;
    }
  }
}
