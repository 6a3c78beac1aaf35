import { unavailable } from '../../store/errors.ts';
import type { Revision } from '../../store/revision.ts';
import type {
  Batch,
  Entry,
  Guard,
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
 * What happens to one transaction: it fails before it commits, it commits and its answer is lost, or it commits and a
 * hook runs before it is answered. What the hook throws is the answer.
 */
export type Fault = 'fail-before-commit' | 'lose-answer' | ((committed: TxnResult) => void | Promise<void>);

/** A real store with faults at chosen transactions. All users of one instance count together. */
export class FaultyStore implements Store {
  readonly #store: Store;
  readonly #faults = new Map<number, Fault>();
  /** Guards that did not hold, in the order of the transactions. */
  readonly failedGuards: Guard[] = [];
  #transactions = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Transactions asked for so far, whatever became of them. */
  get transactions(): number {
    return this.#transactions;
  }

  /** The `k`-th transaction from the making of this store on, counted from 1, gets the fault. */
  at(k: number, fault: Fault): this {
    this.#faults.set(k, fault);
    return this;
  }

  /** No faults from here on; counting goes on. */
  heal(): void {
    this.#faults.clear();
  }

  async txn(txn: Txn): Promise<TxnResult> {
    const k = ++this.#transactions;
    const fault = this.#faults.get(k);
    if (fault === 'fail-before-commit') throw unavailable(`transaction ${k} was chosen to fail`);
    const result = await this.#store.txn(txn);
    if (!result.committed) this.failedGuards.push(...result.failed.map(({ guard }) => guard));
    if (fault === 'lose-answer') throw unavailable(`the answer to transaction ${k} was chosen to be lost`);
    if (fault !== undefined) await fault(result);
    return result;
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
