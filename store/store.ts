import type { Revision } from './revision.ts';

/**
 * The contract of a store: a transactional, revisioned, watchable map from key to value.
 *
 * Guarantees, equal for every backend and proven by `test/contract/store.test.ts`:
 *
 * 1. The strictest backend defines the {@link limits}; every adapter refuses more with the same error.
 * 2. A transaction writes a key at most once and yields exactly one revision; a failed or an empty one yields none.
 * 3. `watch(range, from)` delivers every change with revision ≥ `from`, in order, exactly once, never splitting a
 *    revision across batches, then live ones. It ends only by its signal or by throwing.
 * 4. A `from` above `revision() + 1` throws `Rewound` at once.
 * 5. A slow consumer neither blocks writers nor loses events: it reads again from history, and if that is compacted
 *    meanwhile it gets `Compacted`.
 * 6. `list({ at })` at or above the compaction point works; below it throws `Compacted`.
 * 7. The expiry of a lease deletes its keys in one revision, and watchers see the deletes.
 * 8. An `Unavailable` transaction may have committed if it is `mayBeWritten`: callers must be safe to replay, which
 *    guards make them. A transaction that was refused because the store is full (`isFull`) follows the same rule.
 */
export interface Store {
  /** Changes when history was rewound (restored, wiped). A caller that keeps a revision keeps this beside it. */
  readonly incarnation: string;
  /** Linearizable read of one key. */
  get(key: string): Promise<Entry | undefined>;
  /** One page of a range in key order. `after` is exclusive; `at` reads the past. Default limit 1000. */
  list(range: KeyRange, options?: ListOptions): Promise<Page>;
  /**
   * All or nothing, in one revision. A transaction that only deletes absent keys changes nothing and yields no
   * revision. A guard that fails is a result, not an error.
   *
   * @throws Conflict if the lease of a write is gone; TooLarge above the limits; RangeError for a key that is empty,
   * malformed or written twice; Unavailable.
   */
  txn(txn: Txn): Promise<TxnResult>;
  /** @throws Compacted, Rewound or Unavailable; never ends silently. Never reconnects: the mirror recovers. */
  watch(range: KeyRange, from: Revision, signal: AbortSignal): AsyncIterable<Batch>;
  /** A lease of `ttlMs` milliseconds (≥ 1000) that renews itself until revoked or lost. */
  lease(ttlMs: number): Promise<Lease>;
  /**
   * Linearizable read of the current revision. If other programs write to the same cluster, it may be a revision of
   * theirs: no watch of our keys delivers it before one of our keys changes.
   */
  revision(): Promise<Revision>;
  /**
   * Returns a revision at or above everything that was committed before the call, and which every watch of `keys.all`
   * delivers. A backend with other writers writes a key for it. @throws Unavailable.
   */
  barrier(): Promise<Revision>;
  /** The size of the store and its room to grow. @throws Unavailable. */
  size(): Promise<StoreSize>;
  /** Examines the store behind this process, within some seconds: see {@link StoreHealth}. @throws Unavailable. */
  health(): Promise<StoreHealth>;
  /**
   * Forgets history up to `before`; the present is kept. Lists at `before` and watches above it go on working.
   *
   * @throws Rewound if `before` is above the current revision.
   */
  compact(before: Revision): Promise<void>;
  /** Ends watches with Unavailable, revokes nothing, frees every handle. */
  close(): Promise<void>;
}

/** What an operator wants to know of a store. Times in milliseconds. */
export type StoreHealth = {
  /** How long a durable write took, and a linearizable read. */
  writeMs: number;
  readMs: number;
  /** The revision after that write. */
  revision: Revision;
} & (
  | {
      backend: 'etcd';
      /** The members of the cluster. */
      members: StoreMember[];
      /** The alarms of all members, such as NOSPACE and CORRUPT. */
      alarms: string[];
      /** Size at which a member refuses writes. */
      quotaBytes: number;
    }
  | {
      backend: 'sqlite';
      bytes: number;
      /** Bytes of the log of writes that are not in the file yet. */
      logBytes: number;
      /** Bytes that its disk has left; `undefined` for a store in memory. */
      freeBytes: number | undefined;
      /** What is wrong with the file, `none`, or `unchecked` if the file is too large to look at, or in memory. */
      fault: string;
    }
);

export interface StoreMember {
  name: string;
  /** What it told of itself; absent: it does not answer. */
  status?: { version: string; bytes: number; usedBytes: number; isLeader: boolean; isLearner: boolean };
}

export interface StoreSize {
  /** Bytes on disk, history included. */
  bytes: number;
  /** Bytes that may still be written before writes are refused; 0 while they are. */
  room: number;
}

/** Limits of the strictest backend (etcd: 128 operations, 1.5 MiB per request). */
export const limits = {
  /** Guards and writes of one transaction together. */
  operations: 64,
  /** UTF-8 bytes of one value. */
  valueBytes: 1024 * 1024,
  /** UTF-8 bytes of all keys and values of one transaction. */
  txnBytes: 1400 * 1024,
} as const;

/** Every key that starts with `prefix`. */
export interface KeyRange {
  prefix: string;
}

export interface Entry {
  key: string;
  value: string;
  createRevision: Revision;
  modRevision: Revision;
}

export interface ListOptions {
  limit?: number;
  after?: string;
  at?: Revision;
}

export interface Page {
  entries: Entry[];
  /** The revision at which the page was read: pass it as `at` for the pages that follow. */
  revision: Revision;
  /** Present if there is more: pass it as `after`. */
  next?: string;
}

export interface Txn {
  if: readonly Guard[];
  then: readonly Write[];
}

export type Guard =
  | { key: string; is: 'absent' }
  | { key: string; is: 'present' }
  | { key: string; is: 'at'; revision: Revision };

export type Write = { put: string; value: string; lease?: LeaseId } | { delete: string };

export type TxnResult =
  | { committed: true; revision: Revision }
  | { committed: false; revision: Revision; failed: { guard: Guard; current?: Entry }[] };

/** Whole revisions only. No events: the range is complete up to `revision` (progress). */
export interface Batch {
  revision: Revision;
  events: Change[];
}

/**
 * A change of one key. Without `value` the key was deleted. `previous` is the value before, for convenience: a slow
 * reader may not get it if history was compacted meanwhile.
 */
export interface Change {
  key: string;
  revision: Revision;
  value?: string;
  previous?: string;
}

export type LeaseId = string & { readonly __brand: 'LeaseId' };

export interface Lease {
  readonly id: LeaseId;
  /**
   * Aborts at the local monotonic deadline: `last renewal sent + ttl - 15 %`. Never later than the expiry. It also
   * aborts when the lease is revoked or the store closes, since renewal ends then.
   */
  readonly lost: AbortSignal;
  /** Deletes the keys of the lease now. */
  revoke(): Promise<void>;
}
