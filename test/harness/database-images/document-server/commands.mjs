// The commands of MongoDB that the document database carries out, and those about the server itself.
import { Double, Long } from 'bson';
import { CommandError } from './command-error.mjs';
import { mostMessageBytes } from './wire.mjs';

const bson = 'documentdb_core.bson';
const version = '7.0.0';

/** What clients send with any command, and the document database does not know. */
const beside = [
  'lsid',
  '$clusterTime',
  '$readPreference',
  'apiVersion',
  'apiStrict',
  'apiDeprecationErrors',
  'comment',
  'maxTimeMS',
  'readConcern',
  'txnNumber',
  'writeConcern',
];

/** What a connection may ask for before anybody is logged in. */
const beforeLogin = {
  hello: greeting,
  isMaster: greeting,
  ismaster: greeting,
  ping: () => ({ ok: 1 }),
  buildInfo: () => ({ version, versionArray: [7, 0, 0, 0], maxBsonObjectSize: 16_777_216, modules: [], ok: 1 }),
  saslStart: ({ login, command }) => login.start(command),
  saslContinue: ({ login, command }) => login.finish(command),
  endSessions: () => ({ ok: 1 }),
};

const afterLogin = {
  insert: written,
  update: written,
  delete: written,
  find: page('find'),
  aggregate: page('aggregate'),
  listCollections: page('list_collections'),
  getMore: ({ engine, database, command }) => engine.nextPage(database, command),
  killCursors({ engine, command }) {
    const closed = command.cursors.map((id) => [id, engine.close(String(id))]);
    const of = (isClosed) => closed.filter(([, it]) => it === isClosed).map(([id]) => id);
    return { cursorsKilled: of(true), cursorsNotFound: of(false), cursorsAlive: [], cursorsUnknown: [], ok: 1 };
  },
  drop: async ({ engine, database, command }) => {
    const [{ dropped }] = await engine.rows(
      'SELECT documentdb_api.drop_collection($1, $2) AS dropped',
      database,
      command.drop,
    );
    if (!dropped) throw new CommandError(26, 'NamespaceNotFound', 'ns not found');
    return { ns: `${database}.${command.drop}`, ok: 1 };
  },
  listDatabases: async ({ engine }) => {
    const rows = await engine.rows(
      `SELECT database_name AS name, coalesce(sum(pg_total_relation_size(table_of)), 0)::text AS bytes
       FROM documentdb_api_catalog.collections,
         to_regclass('documentdb_data.documents_' || collection_id) AS table_of
       WHERE view_definition IS NULL GROUP BY 1 ORDER BY 1`,
    );
    const databases = rows.map(({ name, bytes }) => ({ name, sizeOnDisk: Long.fromString(bytes), empty: false }));
    const total = rows.reduce((sum, { bytes }) => sum + BigInt(bytes), 0n);
    return { databases, totalSize: Long.fromBigInt(total), ok: 1 };
  },
  serverStatus: ({ status }) => {
    const { current, available, created, uptime } = status();
    return { version, uptime: new Double(uptime), connections: { current, available, totalCreated: created }, ok: 1 };
  },
};

function greeting({ command }) {
  return {
    helloOk: true,
    isWritablePrimary: true,
    ismaster: true,
    maxBsonObjectSize: 16_777_216,
    maxMessageSizeBytes: mostMessageBytes,
    maxWriteBatchSize: 100_000,
    localTime: new Date(),
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: 21,
    readOnly: false,
    ...(command.saslSupportedMechs !== undefined && { saslSupportedMechs: ['SCRAM-SHA-256'] }),
    ok: 1,
  };
}

function written({ engine, database, command, name }) {
  return engine.bytes(`SELECT p_result FROM documentdb_api.${name}($1, $2::${bson})`, database, command);
}

function page(of) {
  return ({ engine, database, command }) => engine.firstPage(of, database, command);
}

/** Answers a command, by a document or by the bytes of one. @throws CommandError if it is refused */
export async function carryOut({ command: given, database, ...around }) {
  const [name] = Object.keys(given);
  const command = Object.fromEntries(Object.entries(given).filter(([field]) => !beside.includes(field)));
  const asked = { ...around, name, command, database };
  if (Object.hasOwn(beforeLogin, name)) return beforeLogin[name](asked);
  if (around.login.user === undefined)
    throw new CommandError(13, 'Unauthorized', `Command ${name} requires authentication`);
  if (!Object.hasOwn(afterLogin, name)) throw new CommandError(59, 'CommandNotFound', `no such command: '${name}'`);
  return afterLogin[name](asked);
}
