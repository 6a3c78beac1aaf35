import type { Revision } from '../../store/revision.ts';
import type {
  Batch,
  Entry,
  KeyRange,
  Lease,
  ListOptions,
  Page,
  Store,
  StoreSize,
  Txn,
  TxnResult,
} from '../../store/store.ts';

/** A real store whose watches can be held back, so that a mirror on it falls behind while everything else goes on. */
export class LaggingStore implements Store {
  readonly #store: Store;
  #gate: PromiseWithResolvers<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** From now on watches deliver nothing. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  /** Watches deliver what was held back, and go on. */
  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  async *watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncGenerator<Batch, void, void> {
    for await (const batch of this.#store.watch(range, from, signal)) {
      await this.#gate?.promise;
      yield batch;
    }
  }

  get incarnation(): string {
    return this.#store.incarnation;
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#store.get(key);
  }

  list(range: KeyRange, options?: ListOptions): Promise<Page> {
    return this.#store.list(range, options);
  }

  txn(txn: Txn): Promise<TxnResult> {
    return this.#store.txn(txn);
  }

  lease(ttlMs: number): Promise<Lease> {
    return this.#store.lease(ttlMs);
  }

  revision(): Promise<Revision> {
    return this.#store.revision();
  }

  barrier(): Promise<Revision> {
    return this.#store.barrier();
  }

  size(): Promise<StoreSize> {
    return this.#store.size();
  }

  compact(before: Revision): Promise<void> {
    return this.#store.compact(before);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
