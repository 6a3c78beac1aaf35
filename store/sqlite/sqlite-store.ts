import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkList } from '../check-list.ts';
import { checkTtl } from '../check-ttl.ts';
import { checkTxn } from '../check-txn.ts';
import type { Clock } from '../clock.ts';
import { StoreError, unavailable } from '../errors.ts';
import type { Revision } from '../revision.ts';
import type { Batch, Entry, KeyRange, Lease, ListOptions, Page, Store, Txn, TxnResult } from '../store.ts';
import { CommitQueue } from './commit-queue.ts';
import type { Engine } from './engine.ts';
import { Leases } from './leases.ts';
import { Bell, watch } from './watch.ts';

/** Work of one turn of the event loop while compacting. */
const slice = { revisions: 1000, pages: 256 };

/** The store on one SQLite file, in this process. */
export class SqliteStore implements Store, AsyncDisposable {
  readonly #engine: Engine;
  readonly #queue: CommitQueue;
  readonly #bell = new Bell();
  readonly #leases: Leases;
  readonly #release: () => void;
  #compaction: Promise<void> = Promise.resolve();

  /** `opening` numbers the openings of the file, `committed` hears of every commit, `release` closes what was opened. */
  constructor(options: { engine: Engine; clock: Clock; opening: number; committed: () => void; release: () => void }) {
    this.#engine = options.engine;
    this.#release = options.release;
    this.#queue = new CommitQueue(options.engine, () => {
      options.committed();
      this.#bell.ring();
    });
    this.#leases = new Leases(options.clock, options.opening, (id) => this.#commit(() => this.#engine.expire(id)));
  }

  get incarnation(): string {
    return this.#engine.head.incarnation;
  }

  async get(key: string): Promise<Entry | undefined> {
    return this.#read(() => this.#engine.get(key));
  }

  async list(range: KeyRange, options: ListOptions = {}): Promise<Page> {
    checkList(options);
    return this.#read(() => this.#engine.list(range, options));
  }

  async txn(txn: Txn): Promise<TxnResult> {
    checkTxn(txn);
    return this.#commit(() => this.#engine.apply(txn, (id) => this.#leases.isLive(id)));
  }

  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch> {
    return watch(this.#engine, this.#bell, range, from, signal);
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.#checkOpen();
    checkTtl(ttlMs);
    return this.#leases.grant(ttlMs);
  }

  async revision(): Promise<Revision> {
    return this.#read(() => this.#engine.head.revision);
  }

  /** A failed pass keeps what it reached; the next one goes on from there. */
  compact(before: Revision): Promise<void> {
    const pass = this.#compaction.then(() => this.#compact(before));
    this.#compaction = pass.catch(() => undefined);
    return pass;
  }

  async #compact(before: Revision): Promise<void> {
    while (await this.#commit(() => this.#engine.compactSlice(before, slice.revisions))) await nextTurn();
    while (this.#read(() => this.#engine.shrink(slice.pages))) await nextTurn();
  }

  async close(): Promise<void> {
    if (this.#bell.closed) return;
    this.#bell.close();
    this.#leases.close();
    this.#queue.flush();
    this.#release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #commit<T>(job: () => T): Promise<T> {
    this.#checkOpen();
    return this.#queue.run(job);
  }

  #read<T>(step: () => T): T {
    this.#checkOpen();
    try {
      return step();
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw unavailable(`cannot read: ${error instanceof Error ? error.message : String(error)}`, error);
    }
  }

  #checkOpen(): void {
    if (this.#bell.closed) throw unavailable('the store was closed');
  }
}
