import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Etcd3 } from 'etcd3';

/** Transactions that replace a value of 1 KiB if it has not changed: the least that every write needs. */
export interface RawTransactions extends AsyncDisposable {
  /** Replaces the value of one client. Each client has its own key. */
  replace(client: number): Promise<void>;
}

const value = 'x'.repeat(1024);

/** The client of etcd alone. */
export async function rawEtcd(host: string): Promise<RawTransactions> {
  const client = new Etcd3({ hosts: host });
  const revisions = new Map<number, string>();
  return {
    async replace(of) {
      const key = `/raw/${of}`;
      const expected = revisions.get(of) ?? (await client.get(key).exec()).kvs[0]?.mod_revision ?? '0';
      const put = client.put(key).value(value);
      const answer = await client.if(key, 'Mod', '==', expected).then(put).commit();
      if (!answer.succeeded) throw new Error('Nobody else writes the key');
      revisions.set(of, answer.header.revision);
    },
    async [Symbol.asyncDispose]() {
      client.close();
    },
  };
}

/** SQLite alone, durable at every commit: writes the value and one row of history. */
export async function rawSqlite(): Promise<RawTransactions> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
  const db = new DatabaseSync(join(folder, 'raw.db'));
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  db.exec('CREATE TABLE kv (key TEXT PRIMARY KEY, rev INTEGER, value TEXT) STRICT, WITHOUT ROWID');
  db.exec('CREATE TABLE log (rev INTEGER PRIMARY KEY, key TEXT, value TEXT) STRICT');
  const [begin, commit] = [db.prepare('BEGIN IMMEDIATE'), db.prepare('COMMIT')];
  const read = db.prepare('SELECT rev FROM kv WHERE key = ?');
  const put = db.prepare('INSERT OR REPLACE INTO kv VALUES (?, ?, ?)');
  const note = db.prepare('INSERT INTO log VALUES (?, ?, ?)');
  let rev = 0;
  return {
    async replace(of) {
      const key = `/raw/${of}`;
      begin.run();
      read.get(key);
      rev += 1;
      put.run(key, rev, value);
      note.run(rev, key, value);
      commit.run();
    },
    async [Symbol.asyncDispose]() {
      db.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
