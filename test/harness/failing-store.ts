import type { Revision } from '../../store/revision.ts';
import type { Entry, KeyRange, ListOptions, Page, StoreSize, Txn, TxnResult } from '../../store/store.ts';
import { ForwardingStore } from './forwarding-store.ts';

/** What a transaction meets: an error before it is sent, one in the place of its answer, or trouble that follows it. */
export type TxnFault = { before: Error } | { after: Error } | { readsFail: Error };

/** A real store of which one kind of call fails at a time, from then on. */
export class FailingStore extends ForwardingStore {
  /** What reads throw; `undefined`: they are answered. */
  reads: Error | undefined;
  /** What becomes of the transaction with that number from now on, counted from 0. */
  faultOf: ((n: number) => TxnFault | undefined) | undefined;
  /** What the store says of its size; `undefined`: the truth. */
  sized: StoreSize | undefined;
  #txns = 0;

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

  override async txn(txn: Txn): Promise<TxnResult> {
    const fault = this.faultOf?.(this.#txns++);
    if (fault !== undefined && 'before' in fault) throw fault.before;
    const result = await super.txn(txn);
    if (fault !== undefined && 'after' in fault) throw fault.after;
    if (fault !== undefined && 'readsFail' in fault) this.reads = fault.readsFail;
    return result;
  }

  override async get(key: string): Promise<Entry | undefined> {
    this.#checkReads();
    return super.get(key);
  }

  override async list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.#checkReads();
    return super.list(range, options);
  }

  override async revision(): Promise<Revision> {
    this.#checkReads();
    return super.revision();
  }

  override async size(): Promise<StoreSize> {
    this.#checkReads();
    return this.sized ?? super.size();
  }

  #checkReads(): void {
    if (this.reads !== undefined) throw this.reads;
  }
}
