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

/** A real store that counts what went through it: for laws such as "a system at rest writes nothing". */
export class CountingStore implements Store {
  readonly #store: Store;
  /** Transactions that committed with at least one write. */
  committed = 0;
  /** Puts and deletes in those. */
  writes = 0;
  /** Bytes of keys and values that the largest transaction was to write. */
  largestBytes = 0;
  /** Transactions whose guards failed. */
  conflicts = 0;
  /** Calls of `get` and `list`. */
  reads = 0;
  /** The keys that were written, in order, at most the last thousand. */
  readonly keys: string[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  reset(): void {
    this.committed = 0;
    this.writes = 0;
    this.largestBytes = 0;
    this.conflicts = 0;
    this.reads = 0;
    this.keys.length = 0;
  }

  async txn(txn: Txn): Promise<TxnResult> {
    this.largestBytes = Math.max(this.largestBytes, bytesOf(txn));
    const result = await this.#store.txn(txn);
    if (!result.committed) this.conflicts += 1;
    else if (txn.then.length > 0) {
      this.committed += 1;
      this.writes += txn.then.length;
      this.keys.push(...txn.then.map((write) => ('put' in write ? write.put : write.delete)));
      if (this.keys.length > 1000) this.keys.splice(0, this.keys.length - 1000);
    }
    return result;
  }

  get incarnation(): string {
    return this.#store.incarnation;
  }

  get(key: string): Promise<Entry | undefined> {
    this.reads += 1;
    return this.#store.get(key);
  }

  list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.reads += 1;
    return this.#store.list(range, options);
  }

  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch> {
    return this.#store.watch(range, from, signal);
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

function bytesOf({ then }: Txn): number {
  return then.reduce(
    (sum, write) => sum + ('put' in write ? Buffer.byteLength(write.put) + Buffer.byteLength(write.value) : 0),
    0,
  );
}
