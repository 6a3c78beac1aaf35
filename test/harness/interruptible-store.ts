import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Revision } from '../../store/revision.ts';
import type {
  Batch,
  Change,
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

/**
 * A store whose watches can be cut, whose transactions can be overtaken, whose calls can be made to fail, and whose
 * history can be replaced by another.
 */
export class InterruptibleStore implements Store {
  /** What every call throws while it is set. */
  failure: Error | undefined;
  /** Runs before each transaction is sent, while it is set. */
  beforeTxn: ((txn: Txn) => Promise<void>) | undefined;
  /** Number of watches that were started. */
  watches = 0;
  #inner: Store;
  readonly #cuts = new Set<AbortController>();

  constructor(inner: Store) {
    this.#inner = inner;
  }

  get incarnation(): string {
    return this.#inner.incarnation;
  }

  /** Ends the running watches with that error, between two revisions. */
  cut(error: Error): void {
    for (const cut of this.#cuts) cut.abort(error);
  }

  /** Another history from now on; running watches end with the error. */
  replace(inner: Store, error: Error): void {
    this.#inner = inner;
    this.cut(error);
  }

  async get(key: string): Promise<Entry | undefined> {
    this.#check();
    return this.#inner.get(key);
  }

  async list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.#check();
    return this.#inner.list(range, options);
  }

  async txn(txn: Txn): Promise<TxnResult> {
    this.#check();
    await this.beforeTxn?.(txn);
    return this.#inner.txn(txn);
  }

  async *watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncGenerator<Batch, void, void> {
    this.watches++;
    this.#check();
    const cut = new AbortController();
    this.#cuts.add(cut);
    try {
      for await (const batch of this.#inner.watch(range, from, AbortSignal.any([signal, cut.signal]))) {
        for (const whole of byRevision(batch)) {
          yield whole;
          await nextTurn();
          cut.signal.throwIfAborted();
        }
      }
      cut.signal.throwIfAborted();
    } finally {
      this.#cuts.delete(cut);
    }
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.#check();
    return this.#inner.lease(ttlMs);
  }

  async revision(): Promise<Revision> {
    this.#check();
    return this.#inner.revision();
  }

  async barrier(): Promise<Revision> {
    this.#check();
    return this.#inner.barrier();
  }

  async size(): Promise<StoreSize> {
    this.#check();
    return this.#inner.size();
  }

  async compact(before: Revision): Promise<void> {
    this.#check();
    return this.#inner.compact(before);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #check(): void {
    if (this.failure) throw this.failure;
  }
}

function byRevision({ revision, events }: Batch): Batch[] {
  const groups = Map.groupBy(events, (event: Change) => event.revision);
  const batches = [...groups].map(([at, changes]) => ({ revision: at, events: changes }));
  return batches.at(-1)?.revision === revision ? batches : [...batches, { revision, events: [] }];
}
