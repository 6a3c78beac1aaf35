import type { Entry, KeyRange, ListOptions, Page, Txn, TxnResult } from '../../store/store.ts';
import { ForwardingStore } from './forwarding-store.ts';

/** A real store that counts what went through it: for laws such as "a system at rest writes nothing". */
export class CountingStore extends ForwardingStore {
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

  reset(): void {
    this.committed = 0;
    this.writes = 0;
    this.largestBytes = 0;
    this.conflicts = 0;
    this.reads = 0;
    this.keys.length = 0;
  }

  override async txn(txn: Txn): Promise<TxnResult> {
    this.largestBytes = Math.max(this.largestBytes, bytesOf(txn));
    const result = await super.txn(txn);
    if (!result.committed) this.conflicts += 1;
    else if (txn.then.length > 0) {
      this.committed += 1;
      this.writes += txn.then.length;
      this.keys.push(...txn.then.map((write) => ('put' in write ? write.put : write.delete)));
      if (this.keys.length > 1000) this.keys.splice(0, this.keys.length - 1000);
    }
    return result;
  }

  override get(key: string): Promise<Entry | undefined> {
    this.reads += 1;
    return super.get(key);
  }

  override list(range: KeyRange, options?: ListOptions): Promise<Page> {
    this.reads += 1;
    return super.list(range, options);
  }
}

function bytesOf({ then }: Txn): number {
  return then.reduce(
    (sum, write) => sum + ('put' in write ? Buffer.byteLength(write.put) + Buffer.byteLength(write.value) : 0),
    0,
  );
}
