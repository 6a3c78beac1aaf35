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

/** What a transaction meets: an error before it is sent, one in the place of its answer, or trouble that follows it. */
export type TxnFault = { before: Error } | { after: Error } | { readsFail: Error };

/** A real store of which one kind of call fails at a time, from then on. */
export class FailingStore implements Store {
  readonly #store: Store;
  /** What reads throw; `undefined`: they are answered. */
  reads: Error | undefined;
  /** What becomes of the transaction with that number from now on, counted from 0. */
  faultOf: ((n: number) => TxnFault | undefined) | undefined;
  /** What the store says of its size; `undefined`: the truth. */
  sized: StoreSize | undefined;
  #txns = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** All is well again. */
  heal(): void {
    this.reads = undefined;
    this.sized = undefined;
    this.setFault(undefined);
  }

  setFault(faultOf: ((n: number) => TxnFault | undefined) | undefined): void {
    this.faultOf = faultOf;
    this.#txns = 0;
  }

  async txn(txn: Txn): Promise<TxnResult> {
    const fault = this.faultOf?.(this.#txns++);
    if (fault !== undefined && 'before' in fault) throw fault.before;
    const result = await this.#store.txn(txn);
    if (fault !== undefined && 'after' in fault) throw fault.after;
    if (fault !== undefined && 'readsFail' in fault) this.reads = fault.readsFail;
    return result;
  }

  get incarnation(): string {
    return this.#store.incarnation;
  }

  async get(key: string): Promise<Entry | undefined> {
    this.#checkReads();
    return this.#store.get(key);
  }

  async list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.#checkReads();
    return this.#store.list(range, options);
  }

  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch> {
    return this.#store.watch(range, from, signal);
  }

  lease(ttlMs: number): Promise<Lease> {
    return this.#store.lease(ttlMs);
  }

  async revision(): Promise<Revision> {
    this.#checkReads();
    return this.#store.revision();
  }

  barrier(): Promise<Revision> {
    return this.#store.barrier();
  }

  async size(): Promise<StoreSize> {
    this.#checkReads();
    return this.sized ?? this.#store.size();
  }

  compact(before: Revision): Promise<void> {
    return this.#store.compact(before);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #checkReads(): void {
    if (this.reads !== undefined) throw this.reads;
  }
}
