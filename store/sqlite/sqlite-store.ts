import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkList } from '../check-list.ts';
import { checkTtl } from '../check-ttl.ts';
import { checkTxn } from '../check-txn.ts';
import type { Clock } from '../../time/clock.ts';
import { keys } from '../keys.ts';
import { isFull, StoreError, unavailable } from '../errors.ts';
import type { Revision } from '../revision.ts';
import type {
  Batch,
  Entry,
  KeyRange,
  Lease,
  ListOptions,
  Page,
  Store,
  StoreHealth,
  StoreSize,
  Txn,
  TxnResult,
} from '../store.ts';
import { CommitQueue } from './commit-queue.ts';
import type { Engine } from './engine.ts';
import { Leases } from './leases.ts';
import { Bell, watch } from './watch.ts';

/** A file system with fewer free bytes counts as full once it has refused a write. */
const leastFree = 16 * 1024 * 1024;

/** Work of one turn of the event loop while compacting. */
const slice = { revisions: 1000, pages: 256 };

/** The store on one SQLite file, in this process. */
export class SqliteStore implements Store, AsyncDisposable {
  readonly #engine: Engine;
  readonly #queue: CommitQueue;
  readonly #bell = new Bell();
  readonly #leases: Leases;
  readonly #release: () => void;
  readonly #free: () => Promise<number>;
  readonly #examine: (bytes: number) => Promise<{ logBytes: number; fault: string }>;
  /** The last write was refused because the file system is full. */
  #isRefused = false;
  #compaction: Promise<void> = Promise.resolve();

  /**
   * `opening` numbers the openings of the file, `committed` is called after every commit, `release` closes what was
   * opened, `free` returns the bytes that the file system has left, `examine` looks into a file of that size.
   */
  constructor(options: {
    engine: Engine;
    clock: Clock;
    opening: number;
    committed: () => void;
    release: () => void;
    free: () => Promise<number>;
    examine: (bytes: number) => Promise<{ logBytes: number; fault: string }>;
  }) {
    this.#engine = options.engine;
    this.#release = options.release;
    this.#free = options.free;
    this.#examine = options.examine;
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

  /** This process is the only writer, so that its watches deliver every revision. */
  barrier(): Promise<Revision> {
    return this.revision();
  }

  async size(): Promise<StoreSize> {
    const { bytes, free } = this.#read(() => this.#engine.size());
    const room = free + (await this.#free());
    return { bytes, room: this.#isRefused && room < leastFree ? 0 : room };
  }

  async health(): Promise<StoreHealth> {
    const begun = performance.now();
    const { revision } = await this.txn({ if: [], then: [{ put: keys.meta('barrier'), value: '' }] });
    const written = performance.now();
    await this.get(keys.meta('barrier'));
    const readMs = performance.now() - written;
    const { bytes } = this.#read(() => this.#engine.size());
    const free = await this.#free();
    return {
      backend: 'sqlite',
      writeMs: written - begun,
      readMs,
      revision,
      bytes,
      freeBytes: Number.isFinite(free) ? free : undefined,
      ...(await this.#examine(bytes)),
    };
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
    this.#read(() => this.#engine.checkpoint());
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
    try {
      const result = await this.#queue.run(job);
      this.#isRefused = false;
      return result;
    } catch (error) {
      if (isFull(error)) this.#isRefused = true;
      throw error;
    }
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
