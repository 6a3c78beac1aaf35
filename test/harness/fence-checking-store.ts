import { keys } from '../../store/keys.ts';
import type { Revision } from '../../store/revision.ts';
import type { Batch, Entry, KeyRange, Lease, ListOptions, Page, Store, Txn, TxnResult } from '../../store/store.ts';

const leadership = keys.leader('controllers');

/**
 * A real store as the controllers of one replica use it. It notes the writes that a deposed leader could still make:
 * transactions without a guard that the leader key is the one of the term. A campaign for the leadership is none.
 */
export class FenceCheckingStore implements Store {
  readonly #store: Store;
  /** First key of each transaction that carries no fence. */
  readonly unfenced: string[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  txn(txn: Txn): Promise<TxnResult> {
    const written = txn.then.map((write) => ('put' in write ? write.put : write.delete));
    const isFenced = txn.if.some((guard) => guard.key === leadership && guard.is === 'at');
    if (!isFenced && written[0] !== undefined && !written.includes(leadership)) this.unfenced.push(written[0]);
    return this.#store.txn(txn);
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

  size(): ReturnType<Store['size']> {
    return this.#store.size();
  }

  compact(before: Revision): Promise<void> {
    return this.#store.compact(before);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
