// The document database inside PostgreSQL, which takes and gives documents as BSON.
import pg from 'pg';
import { CommandError } from './command-error.mjs';
import { read, write } from './wire.mjs';

const bson = 'documentdb_core.bson';
const mostCursors = 200;

/** A document is sent as its bytes; it comes back as text, in hexadecimal digits. */
const sent = (value) => (typeof value === 'object' && !Buffer.isBuffer(value) ? write(value) : value);
const bytesOf = (text) => Buffer.from(text.slice('BSONHEX'.length), 'hex');

/** The errors of the engine that clients of MongoDB know by another number. */
const known = { M001C: [11_000, 'DuplicateKey'] };

/** As a client of MongoDB reads what PostgreSQL refuses. */
const refusal = (error) => new CommandError(...(known[error.code] ?? [1, 'InternalError']), error.message);

export class Engine {
  #pool;
  /** By their number: how each goes on, and by which connection, where it depends on that. */
  #cursors = new Map();

  constructor(connection) {
    this.#pool = new pg.Pool({ ...connection, max: 20 });
    this.#pool.on('error', (error) => console.error(`A connection ended: ${error.message}`));
  }

  /** The bytes of the document that a statement selects. */
  async bytes(statement, ...values) {
    const { rows } = await this.#query(this.#pool, `SELECT it::text FROM (${statement}) AS one (it)`, values);
    return bytesOf(rows[0].it);
  }

  /** The document that a statement selects. */
  async document(statement, ...values) {
    return read(await this.bytes(statement, ...values));
  }

  async rows(statement, ...values) {
    return (await this.#query(this.#pool, statement, values)).rows;
  }

  /** The first page of a cursor. */
  async firstPage(name, database, command) {
    if (this.#cursors.size >= mostCursors)
      throw new CommandError(1, 'InternalError', `There are ${mostCursors} cursors: close one of them`);
    const connection = await this.#pool.connect();
    let isHeld = false;
    try {
      const { rows } = await this.#query(
        connection,
        `SELECT cursorpage::text AS page, continuation::text AS next, persistconnection AS "isBound", cursorid::text AS id
         FROM documentdb_api.${name}_cursor_first_page($1, $2::${bson})`,
        [database, command],
      );
      const [{ page, next, isBound, id }] = rows;
      if (next !== null) {
        isHeld = isBound;
        this.#cursors.set(id, { next: bytesOf(next), connection: isBound ? connection : undefined });
      }
      return bytesOf(page);
    } finally {
      if (!isHeld) connection.release();
    }
  }

  /** The next page of a cursor, which is closed with its last one. */
  async nextPage(database, command) {
    const id = String(command.getMore);
    const cursor = this.#cursors.get(id);
    if (cursor === undefined) throw new CommandError(43, 'CursorNotFound', `cursor id ${id} not found`);
    const { rows } = await this.#query(
      cursor.connection ?? this.#pool,
      `SELECT cursorpage::text AS page, continuation::text AS next
       FROM documentdb_api.cursor_get_more($1, $2::${bson}, $3::${bson})`,
      [database, command, cursor.next],
    );
    const [{ page, next }] = rows;
    if (next === null) this.close(id);
    else cursor.next = bytesOf(next);
    return bytesOf(page);
  }

  close(id) {
    const cursor = this.#cursors.get(id);
    this.#cursors.delete(id);
    // what it holds in the connection ends with that
    cursor?.connection?.release(true);
    return cursor !== undefined;
  }

  async #query(connection, statement, values) {
    try {
      return await connection.query(statement, values.map(sent));
    } catch (error) {
      throw refusal(error);
    }
  }
}
