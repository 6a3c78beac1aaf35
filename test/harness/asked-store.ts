import type { Revision } from '../../store/revision.ts';
import type { Entry, KeyRange, ListOptions, Page, Txn, TxnResult } from '../../store/store.ts';
import { LaggingStore } from './lagging-store.ts';

/** The calls of a store that cost a round trip each. */
type Call = 'get' | 'list' | 'txn' | 'revision' | 'barrier';

/** A store whose watches can be held back, and which records the calls that were made. */
export class AskedStore extends LaggingStore {
  /** The calls since the last `reset`, in order. */
  asked: Call[] = [];
  /** Runs when the revision was asked for: a request that does not go on from the mirror. */
  onRevision: (() => void) | undefined;

  /** What the next transaction throws instead of being sent. */
  failsOnce: Error | undefined;

  reset(): void {
    this.asked = [];
  }

  override get(key: string): Promise<Entry | undefined> {
    this.asked.push('get');
    return super.get(key);
  }

  override list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.asked.push('list');
    return super.list(range, options);
  }

  override txn(txn: Txn): Promise<TxnResult> {
    this.asked.push('txn');
    const failure = this.failsOnce;
    this.failsOnce = undefined;
    return failure === undefined ? super.txn(txn) : Promise.reject(failure);
  }

  override revision(): Promise<Revision> {
    this.asked.push('revision');
    this.onRevision?.();
    return super.revision();
  }

  override barrier(): Promise<Revision> {
    this.asked.push('barrier');
    return super.barrier();
  }
}
