import type { Revision } from '../../store/revision.ts';
import type {
  Batch,
  Entry,
  KeyRange,
  Lease,
  ListOptions,
  Page,
  Store,
  StoreHealth,
  StoreSize,
  Txn,
  TxnResult,
} from '../../store/store.ts';

/** A store in front of a real one, to which it forwards every call. What stands in for a store overrides what it changes. */
export class ForwardingStore implements Store {
  protected inner: Store;

  constructor(inner: Store) {
    this.inner = inner;
  }

  get incarnation(): string {
    return this.inner.incarnation;
  }

  get(key: string): Promise<Entry | undefined> {
    return this.inner.get(key);
  }

  list(range: KeyRange, options?: ListOptions): Promise<Page> {
    return this.inner.list(range, options);
  }

  txn(txn: Txn): Promise<TxnResult> {
    return this.inner.txn(txn);
  }

  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch> {
    return this.inner.watch(range, from, signal);
  }

  lease(ttlMs: number): Promise<Lease> {
    return this.inner.lease(ttlMs);
  }

  revision(): Promise<Revision> {
    return this.inner.revision();
  }

  barrier(): Promise<Revision> {
    return this.inner.barrier();
  }

  size(): Promise<StoreSize> {
    return this.inner.size();
  }

  health(): Promise<StoreHealth> {
    return this.inner.health();
  }

  compact(before: Revision): Promise<void> {
    return this.inner.compact(before);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}
