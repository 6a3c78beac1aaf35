import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { revision } from '../revision.ts';
import type { Revision } from '../revision.ts';

/** Version of the tables below; a file with another one is refused. */
const schemaVersion = 1;

/**
 * `log` is the history: one row per written key and revision, a deletion has no value. `kv` is the present: it points
 * at the newest log row of every living key, so a value is stored once.
 */
const tables = `
  CREATE TABLE meta (k TEXT PRIMARY KEY, v ANY NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE log (
    rev INTEGER NOT NULL, sub INTEGER NOT NULL, key TEXT NOT NULL, create_rev INTEGER NOT NULL, value TEXT,
    PRIMARY KEY (rev, sub)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX log_key ON log (key, rev);
  CREATE TABLE kv (
    key TEXT PRIMARY KEY, rev INTEGER NOT NULL, sub INTEGER NOT NULL, create_rev INTEGER NOT NULL, lease TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX kv_lease ON kv (lease) WHERE lease IS NOT NULL;
`;

/** The state of the history in the file. */
export interface Head {
  revision: Revision;
  /** History up to and including this revision is gone. */
  compacted: Revision;
  incarnation: string;
}

/** Creates the tables if the file is new, and makes the connection durable at every commit. */
export function prepareSchema(db: DatabaseSync, path: string): Head {
  db.exec('PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  db.exec(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}; PRAGMA cache_size = ${-32 * 1024}`);
  const isNew = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").get() === undefined;
  if (isNew) {
    db.exec(`BEGIN IMMEDIATE; ${tables}`);
    const insert = db.prepare('INSERT INTO meta (k, v) VALUES (?, ?)');
    insert.run('schema', schemaVersion);
    // The first write gets revision 2, as in etcd: 1 is the empty store.
    insert.run('revision', 1);
    insert.run('compacted', 0);
    insert.run('incarnation', randomUUID());
    insert.run('openings', 0);
    db.exec('COMMIT');
  }
  const read = db.prepare('SELECT v FROM meta WHERE k = ?');
  const found = read.get('schema')?.['v'];
  if (found !== schemaVersion)
    throw new Error(
      `Cannot open ${path} as it has schema ${String(found)}, and this release knows ${schemaVersion} only: run the release that wrote it, or restore a backup`,
    );
  return {
    revision: revision(Number(read.get('revision')?.['v'])),
    compacted: revision(Number(read.get('compacted')?.['v'])),
    incarnation: String(read.get('incarnation')?.['v']),
  };
}
