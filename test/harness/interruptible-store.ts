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
import { ForwardingStore } from './forwarding-store.ts';

/**
 * A store whose watches can be cut, whose transactions can be overtaken, whose calls can be made to fail, and whose
 * history can be replaced by another.
 */
export class InterruptibleStore extends ForwardingStore {
  /** What every call throws while it is set. */
  failure: Error | undefined;
  /** Runs before each transaction is sent, while it is set. */
  beforeTxn: ((txn: Txn) => Promise<void>) | undefined;
  /** Number of watches that were started. */
  watches = 0;
  readonly #cuts = new Set<AbortController>();

  /** Ends the running watches with that error, between two revisions. */
  cut(error: Error): void {
    for (const cut of this.#cuts) cut.abort(error);
  }

  /** Another history from now on; running watches end with the error. */
  replace(inner: Store, error: Error): void {
    this.inner = inner;
    this.cut(error);
  }

  override async get(key: string): Promise<Entry | undefined> {
    this.#check();
    return super.get(key);
  }

  override async list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.#check();
    return super.list(range, options);
  }

  override async txn(txn: Txn): Promise<TxnResult> {
    this.#check();
    await this.beforeTxn?.(txn);
    return super.txn(txn);
  }

  override async *watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncGenerator<Batch, void, void> {
    this.watches++;
    this.#check();
    const cut = new AbortController();
    this.#cuts.add(cut);
    try {
      for await (const batch of super.watch(range, from, AbortSignal.any([signal, cut.signal]))) {
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

  override async lease(ttlMs: number): Promise<Lease> {
    this.#check();
    return super.lease(ttlMs);
  }

  override async revision(): Promise<Revision> {
    this.#check();
    return super.revision();
  }

  override async barrier(): Promise<Revision> {
    this.#check();
    return super.barrier();
  }

  override async size(): Promise<StoreSize> {
    this.#check();
    return super.size();
  }

  override async compact(before: Revision): Promise<void> {
    this.#check();
    return super.compact(before);
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
