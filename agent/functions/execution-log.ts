import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { Logger } from 'pino';
import { Execution } from '../../agent-protocol/functions.ts';
import type { Executions } from '../../agent-protocol/functions.ts';
import type { Clock } from '../../time/clock.ts';

/** Executions that are kept of one function, and for how long. */
export const kept = { count: 1000, ms: 7 * 24 * 3_600_000 } as const;
/** Records wait for others at most so long, and at most so many of them, before they are written together. */
const together = { ms: 250, count: 200 } as const;
/** Old records are looked for after so many writes. */
const pruneEvery = 50;

const schema = `
CREATE TABLE IF NOT EXISTS execution (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  function TEXT NOT NULL,
  at INTEGER NOT NULL,
  status TEXT NOT NULL,
  record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS of_function ON execution (function, seq);
CREATE INDEX IF NOT EXISTS by_start ON execution (function, at, id);
`;

/** Where an execution stands among those of its function, from its begin on: by its start in milliseconds, then by its id. */
export interface Position {
  at: number;
  id: string;
}

interface EndedQuery {
  function_id: string;
  limit: number;
  /** Only those that come after it, the newest first. */
  before?: Position | undefined;
  status?: readonly string[] | undefined;
}

/**
 * What became of the calls of functions, in a file of the agent. The file is made with the first record. A record that was
 * not written when the machine stopped is lost, and a failure to write is logged: no call fails because of it.
 */
export class ExecutionLog implements AsyncDisposable {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  #opening: Promise<DatabaseSync> | undefined;
  #pending: { of: string; it: Execution }[] = [];
  #cancel: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();
  #writes = 0;

  constructor(path: string, { clock, log }: { clock: Clock; log: Logger }) {
    this.#path = path;
    this.#clock = clock;
    this.#log = log;
  }

  /** Keeps an execution that has ended. */
  add(of: string, it: Execution): void {
    this.#pending.push({ of, it });
    if (this.#pending.length >= together.count) this.#flush();
    else this.#cancel ??= this.#clock.timer(together.ms, () => this.#flush());
  }

  /** The position of an execution of the function that has ended; `undefined`: it is not kept any more. */
  async position(of: string, id: string): Promise<Position | undefined> {
    const database = await this.#written();
    const found = database.prepare('SELECT at FROM execution WHERE function = ? AND id = ?').get(of, id);
    return found && { at: Number(found['at']), id };
  }

  /** The ended ones of a function, those that began last first. */
  async read({ function_id: of, limit, before, status = [] }: EndedQuery): Promise<Executions> {
    const database = await this.#written();
    const from = before ?? { at: Number.MAX_SAFE_INTEGER, id: '' };
    const found = database
      .prepare(
        `SELECT record FROM execution WHERE function = ? AND at >= ? AND (at, id) < (?, ?)${inStates(status)} ORDER BY at DESC, id DESC LIMIT ?`,
      )
      .all(of, this.#oldest(), from.at, from.id, ...status, limit + 1);
    const items = found.slice(0, limit).map(({ record }) => Execution.parse(JSON.parse(String(record))));
    return { items, more: found.length > limit };
  }

  /** How many of a function have ended, in these states alone if some are given. */
  async count(of: string, status: readonly string[] = []): Promise<number> {
    const database = await this.#written();
    const found = database
      .prepare(`SELECT count(*) AS n FROM execution WHERE function = ? AND at >= ?${inStates(status)}`)
      .get(of, this.#oldest(), ...status);
    return Number(found?.['n']);
  }

  /** Removes the records of all functions but these. */
  async retain(functions: ReadonlySet<string>): Promise<void> {
    if (this.#opening === undefined) return;
    const database = await this.#open();
    for (const { function: of } of database.prepare('SELECT DISTINCT function FROM execution').all())
      if (!functions.has(String(of))) database.prepare('DELETE FROM execution WHERE function = ?').run(String(of));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#flush();
    await this.#writing;
    const opened = await this.#opening?.catch(() => undefined); // it was logged that nothing could be stored
    opened?.close();
  }

  /** The file, with all records that were added so far. */
  async #written(): Promise<DatabaseSync> {
    this.#flush();
    await this.#writing;
    return this.#open();
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    const records = this.#pending.splice(0);
    if (records.length === 0) return;
    this.#writing = this.#writing
      .then(() => this.#write(records))
      .catch((error: unknown) =>
        this.#log.error(
          { err: error, lost: records.length },
          'Cannot store what became of calls of functions: check the disk of the data directory',
        ),
      );
  }

  async #write(records: readonly { of: string; it: Execution }[]): Promise<void> {
    const database = await this.#open();
    const insert = database.prepare(
      'INSERT OR REPLACE INTO execution (id, function, at, status, record) VALUES (?, ?, ?, ?, ?)',
    );
    database.exec('BEGIN');
    try {
      for (const { of, it } of records) insert.run(it.id, of, Date.parse(it.started_at), it.status, JSON.stringify(it));
      this.#writes += 1;
      if (this.#writes % pruneEvery === 1) this.#prune(database);
      database.exec('COMMIT');
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  }

  #prune(database: DatabaseSync): void {
    database.prepare('DELETE FROM execution WHERE at < ?').run(this.#oldest());
    const all = database.prepare('SELECT function, count(*) AS n FROM execution GROUP BY function HAVING n > ?');
    for (const { function: of } of all.all(kept.count))
      database
        .prepare(
          'DELETE FROM execution WHERE function = ?1 AND seq <= (SELECT seq FROM execution WHERE function = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)',
        )
        .run(String(of), kept.count);
  }

  #oldest(): number {
    return this.#clock.now().getTime() - kept.ms;
  }

  #open(): Promise<DatabaseSync> {
    this.#opening ??= this.#made().catch((error: unknown) => {
      this.#opening = undefined; // the next one tries again
      throw error;
    });
    return this.#opening;
  }

  async #made(): Promise<DatabaseSync> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    const { DatabaseSync } = await import('node:sqlite'); // an agent without functions does not need it
    const database = new DatabaseSync(this.#path);
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 2000');
    database.exec(schema);
    return database;
  }
}

/** The condition that an execution is in one of the states, which are parameters; none: it may be in any. */
function inStates(states: readonly string[]): string {
  return states.length === 0 ? '' : ` AND status IN (${states.map(() => '?').join(', ')})`;
}
