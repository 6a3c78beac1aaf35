import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { compacted, conflict, rewound } from '../errors.ts';
import { guardHolds } from '../guard-holds.ts';
import { revision } from '../revision.ts';
import type { Revision } from '../revision.ts';
import type { Batch, Change, Entry, KeyRange, LeaseId, ListOptions, Page, Txn, TxnResult } from '../store.ts';
import { keyBounds } from './key-bounds.ts';
import type { Head } from './schema.ts';

/** Bounds of one read of the history; a revision is never split, so a batch may exceed them by one revision. */
const batch = { revisions: 1000, characters: 4 * 1024 * 1024 };

/**
 * The store as synchronous steps on one connection. Nothing runs between the steps of a transaction, and no other
 * process writes the file, so the counters kept here are those of the file.
 */
export class Engine {
  readonly #db: DatabaseSync;
  readonly #sql: ReturnType<typeof statements>;
  #head: Head;

  constructor(db: DatabaseSync, head: Head) {
    this.#db = db;
    this.#head = head;
    this.#sql = statements(db);
  }

  get head(): Readonly<Head> {
    return this.#head;
  }

  /** Runs `work` in one SQLite transaction, durable on return. If it throws, nothing is written. */
  atomically<T>(work: () => T): T {
    const before = this.#head;
    this.#sql.begin.run();
    try {
      const result = work();
      if (this.#head.revision !== before.revision) this.#sql.setMeta.run(this.#head.revision, 'revision');
      if (this.#head.compacted !== before.compacted) this.#sql.setMeta.run(this.#head.compacted, 'compacted');
      this.#sql.commit.run();
      return result;
    } catch (error) {
      this.#head = before;
      // SQLite itself has rolled back after a full disk and most input or output errors.
      if (this.#db.isTransaction) this.#sql.rollback.run();
      throw error;
    }
  }

  get(key: string): Entry | undefined {
    const row = this.#sql.get.get(key);
    return row === undefined ? undefined : toEntry(row);
  }

  list(range: KeyRange, { limit = 1000, after, at }: ListOptions): Page {
    const { start, end } = keyBounds(range, after);
    const head = this.#head;
    if (at !== undefined && at > head.revision) throw this.#future(at);
    if (at !== undefined && at < head.compacted) throw compacted(head.compacted);
    const rows =
      at === undefined || at === head.revision
        ? this.#sql.list.all(start, end, limit + 1)
        : this.#sql.listAt.all(start, end, at, at, limit + 1);
    const entries = rows.slice(0, limit).map(toEntry);
    const last = entries.at(-1);
    return {
      entries,
      revision: at ?? head.revision,
      ...(rows.length > limit && last !== undefined ? { next: last.key } : {}),
    };
  }

  /** Inside {@link atomically}: applies a transaction. @throws Conflict if a lease is gone; nothing is written then. */
  apply(txn: Txn, isLive: (lease: LeaseId) => boolean): TxnResult {
    const failed = txn.if.filter((guard) => !guardHolds(guard, this.#revisionOf(guard.key)));
    if (failed.length > 0)
      return {
        committed: false,
        revision: this.#head.revision,
        failed: failed.map((guard) => {
          const current = this.get(guard.key);
          return current === undefined ? { guard } : { guard, current };
        }),
      };
    for (const write of txn.then)
      if ('put' in write && write.lease !== undefined && !isLive(write.lease))
        throw conflict(`Cannot write "${write.put}" as its lease is gone: ${write.lease}`);

    const rev = revision(this.#head.revision + 1);
    let sub = 0;
    for (const write of txn.then) {
      if ('delete' in write) sub += this.#delete(rev, sub, write.delete);
      else {
        const created = this.#sql.present.get(write.put)?.['create_rev'] ?? rev;
        this.#sql.insertLog.run(rev, sub, write.put, created, write.value);
        this.#sql.upsert.run(write.put, rev, sub, created, write.lease ?? null);
        sub += 1;
      }
    }
    if (sub > 0) this.#head = { ...this.#head, revision: rev };
    return { committed: true, revision: this.#head.revision };
  }

  /** Inside {@link atomically}: deletes the keys of one lease, or of all, in one revision. */
  expire(lease?: LeaseId): void {
    const rows = lease === undefined ? this.#sql.leased.all() : this.#sql.leasedBy.all(lease);
    const rev = revision(this.#head.revision + 1);
    rows.forEach((row, sub) => this.#delete(rev, sub, String(row['key'])));
    if (rows.length > 0) this.#head = { ...this.#head, revision: rev };
  }

  /** Inside {@link atomically}: the number of this opening of the file, from 1. */
  countOpening(): number {
    return Number(this.#sql.countOpening.get()?.['v']);
  }

  /** Inside {@link atomically}. */
  setIncarnation(incarnation: string): void {
    this.#sql.setMeta.run(incarnation, 'incarnation');
    this.#head = { ...this.#head, incarnation };
  }

  /**
   * The changes from `from` on, within the bounds of one read. There were no others up to the batch's revision. Call it
   * while `from ≤ head.revision`.
   *
   * @throws Compacted, or Rewound if `from` lies beyond the next revision.
   */
  changes(range: KeyRange, from: Revision): Batch {
    this.checkPosition(from);
    const { start, end } = keyBounds(range);
    const last = Math.min(from + batch.revisions - 1, this.#head.revision);
    const events: Change[] = [];
    let characters = 0;
    for (const row of this.#sql.changes.iterate(from, last, start, end)) {
      const event = toChange(row);
      const previous = events.at(-1);
      if (previous !== undefined && previous.revision !== event.revision && characters >= batch.characters)
        return { revision: previous.revision, events };
      characters += (event.value?.length ?? 0) + (event.previous?.length ?? 0);
      events.push(event);
    }
    return { revision: revision(last), events };
  }

  /** @throws Compacted or Rewound if a watch cannot start or go on at `from`. */
  checkPosition(from: Revision): void {
    if (from > this.#head.revision + 1) throw this.#future(from);
    if (from <= this.#head.compacted) throw compacted(this.#head.compacted);
  }

  /** Inside {@link atomically}: forgets at most `revisions` revisions; false once all up to `target` are forgotten. */
  compactSlice(target: Revision, revisions: number): boolean {
    const from = this.#head.compacted;
    if (target > this.#head.revision) throw this.#future(target);
    if (target <= from) return false;
    const to = revision(Math.min(from + revisions, target));
    this.#sql.forgetSuperseded.run(from, to);
    this.#sql.forgetDeletions.run(from, to);
    this.#head = { ...this.#head, compacted: to };
    return to < target;
  }

  /** Gives at most `pages` free pages back; false when none are left. */
  shrink(pages: number): boolean {
    this.#db.exec(`PRAGMA incremental_vacuum(${pages})`);
    return Number(this.#sql.freePages.get()?.['freelist_count']) > 0;
  }

  /** Empties the write-ahead log into the file. Does not wait for readers: what one still needs stays in the log. */
  checkpoint(): void {
    const { timeout } = this.#sql.busyTimeout.get() ?? {};
    this.#db.exec('PRAGMA busy_timeout = 0');
    try {
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } finally {
      this.#db.exec(`PRAGMA busy_timeout = ${Number(timeout)}`);
    }
  }

  /** Bytes of the file without its log, and those of them that are free. */
  size(): { bytes: number; free: number } {
    const page = Number(this.#sql.pageSize.get()?.['page_size']);
    const pages = Number(this.#sql.pageCount.get()?.['page_count']);
    return { bytes: pages * page, free: Number(this.#sql.freePages.get()?.['freelist_count']) * page };
  }

  close(): void {
    this.#db.close();
  }

  #delete(rev: Revision, sub: number, key: string): 0 | 1 {
    if (this.#sql.remove.run(key).changes === 0) return 0;
    this.#sql.insertLog.run(rev, sub, key, 0, null);
    return 1;
  }

  #revisionOf(key: string): Revision | undefined {
    const rev = this.#sql.present.get(key)?.['rev'];
    return rev === undefined ? undefined : revision(Number(rev));
  }

  #future(wanted: Revision): Error {
    return rewound(this.#head.incarnation, `wanted revision ${wanted}, the store is at ${this.#head.revision}`);
  }
}

function statements(db: DatabaseSync) {
  const entry = 'SELECT kv.key, kv.create_rev, kv.rev, log.value FROM kv CROSS JOIN log USING (rev, sub)';
  return {
    begin: db.prepare('BEGIN IMMEDIATE'),
    commit: db.prepare('COMMIT'),
    rollback: db.prepare('ROLLBACK'),
    setMeta: db.prepare('UPDATE meta SET v = ? WHERE k = ?'),
    countOpening: db.prepare("UPDATE meta SET v = v + 1 WHERE k = 'openings' RETURNING v"),
    get: db.prepare(`${entry} WHERE kv.key = ?`),
    present: db.prepare('SELECT rev, create_rev FROM kv WHERE key = ?'),
    list: db.prepare(`${entry} WHERE kv.key >= ? AND kv.key < ? ORDER BY kv.key LIMIT ?`),
    listAt: db.prepare(`
      SELECT key, create_rev, rev, value FROM log INDEXED BY log_key
      WHERE key >= ? AND key < ? AND rev <= ? AND value IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.key = log.key AND newer.rev > log.rev AND newer.rev <= ?)
      ORDER BY key LIMIT ?`),
    changes: db.prepare(`
      SELECT rev, key, value,
        (SELECT value FROM log AS p WHERE p.key = log.key AND p.rev < log.rev ORDER BY p.rev DESC LIMIT 1) AS previous
      FROM log NOT INDEXED WHERE rev BETWEEN ? AND ? AND key >= ? AND key < ? ORDER BY rev, sub`),
    insertLog: db.prepare('INSERT INTO log (rev, sub, key, create_rev, value) VALUES (?, ?, ?, ?, ?)'),
    upsert: db.prepare('INSERT OR REPLACE INTO kv (key, rev, sub, create_rev, lease) VALUES (?, ?, ?, ?, ?)'),
    remove: db.prepare('DELETE FROM kv WHERE key = ?'),
    leased: db.prepare('SELECT key FROM kv WHERE lease IS NOT NULL ORDER BY key'),
    leasedBy: db.prepare('SELECT key FROM kv WHERE lease = ? ORDER BY key'),
    forgetSuperseded: db.prepare(`
      DELETE FROM log WHERE (rev, sub) IN (
        SELECT older.rev, older.sub
        FROM log AS newer NOT INDEXED CROSS JOIN log AS older ON older.key = newer.key AND older.rev < newer.rev
        WHERE newer.rev > ? AND newer.rev <= ?)`),
    forgetDeletions: db.prepare('DELETE FROM log WHERE rev > ? AND rev <= ? AND value IS NULL'),
    freePages: db.prepare('PRAGMA freelist_count'),
    pageSize: db.prepare('PRAGMA page_size'),
    pageCount: db.prepare('PRAGMA page_count'),
    busyTimeout: db.prepare('PRAGMA busy_timeout'),
  } satisfies Record<string, StatementSync>;
}

type Row = ReturnType<StatementSync['all']>[number];

function toEntry(row: Row): Entry {
  return {
    key: String(row['key']),
    value: String(row['value']),
    createRevision: revision(Number(row['create_rev'])),
    modRevision: revision(Number(row['rev'])),
  };
}

function toChange(row: Row): Change {
  const { value, previous } = row;
  return {
    key: String(row['key']),
    revision: revision(Number(row['rev'])),
    ...(typeof value === 'string' ? { value } : {}),
    ...(typeof previous === 'string' ? { previous } : {}),
  };
}
