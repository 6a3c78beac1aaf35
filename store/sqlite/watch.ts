import { setImmediate as nextTurn } from 'node:timers/promises';
import { unavailable } from '../errors.ts';
import { revision } from '../revision.ts';
import type { Revision } from '../revision.ts';
import type { Batch, KeyRange } from '../store.ts';
import type { Engine } from './engine.ts';

/** Wakes the watches of one store: after a commit, and when it closes. */
export class Bell {
  readonly #sleepers = new Set<() => void>();
  #closed = false;

  get closed(): boolean {
    return this.#closed;
  }

  ring(): void {
    const sleepers = [...this.#sleepers];
    this.#sleepers.clear();
    for (const wake of sleepers) wake();
  }

  close(): void {
    this.#closed = true;
    this.ring();
  }

  /** Resolves at the next ring or when the signal aborts. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted || this.#closed) {
        resolve();
        return;
      }
      const wake = (): void => {
        signal.removeEventListener('abort', wake);
        this.#sleepers.delete(wake);
        resolve();
      };
      this.#sleepers.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}

/**
 * Reads the log from a cursor of its own, so a slow consumer delays no other and needs no buffer. The event loop gets a
 * turn between two batches.
 */
export async function* watch(
  engine: Engine,
  bell: Bell,
  range: KeyRange,
  from: Revision,
  signal: AbortSignal,
): AsyncGenerator<Batch, void, void> {
  let cursor = from;
  while (!signal.aborted) {
    if (bell.closed) throw unavailable('the store was closed');
    if (cursor > engine.head.revision) {
      engine.checkPosition(cursor);
      await bell.next(signal);
      continue;
    }
    const batch = engine.changes(range, cursor);
    cursor = revision(batch.revision + 1);
    yield batch;
    await nextTurn();
  }
}
