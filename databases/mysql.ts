import { certificateFile, except, keyFile, numberIn, plainName, rowsOf, urlOf } from './engine.ts';
import type { Credentials, Demand, Dump, Engine, Import, NameRule, RestoreEnd } from './engine.ts';
import { gib, mib, plainValue } from './parameters.ts';
import type { Parameters } from './parameters.ts';
import { clientFile, clientOptions } from './option-file.ts';
import { withoutSandboxLine } from './sandbox-line.ts';

/** Names of users have at most 32 characters. */
const username: NameRule = except(
  {
    pattern: /^[A-Za-z_][A-Za-z0-9_-]{0,31}$/,
    fault: 'Must be 1 to 32 letters, digits, _ or -, and begin with a letter or _',
  },
  ['root', 'mysql\\..*', 'mariadb\\..*'],
);

/** Databases of the engine itself. */
const ownSchemas = ['mysql', 'sys', 'information_schema', 'performance_schema'];

/** Statements that the server carries out at its start, before it accepts connections. */
const passwordFile = '/etc/setpoint/password.sql';

/**
 * Of the user and of `root`, which have one password. The server reads each line as a statement. The password is in
 * hexadecimal, so that no character of it means anything in one.
 */
function passwordStatements({ username: user, password }: Credentials): string {
  const accounts = [`'${user}'@'%'`, "'root'@'%'", "'root'@'localhost'"];
  const parts = accounts.map((account) => `'${account.replaceAll("'", "''")} IDENTIFIED BY ', @setpoint_password`);
  return [
    "SET SESSION sql_mode = ''",
    `SET @setpoint_password = QUOTE(CONVERT(X'${Buffer.from(password).toString('hex')}' USING utf8mb4))`,
    `SET @setpoint_change = CONCAT('ALTER USER IF EXISTS ', ${parts.join(", ', ', ")})`,
    'PREPARE setpoint_change FROM @setpoint_change',
    'EXECUTE setpoint_change',
    'DEALLOCATE PREPARE setpoint_change',
  ]
    .map((statement) => `${statement};\n`)
    .join('');
}

/**
 * Modes that both engines know, without those that change what quotes and backslashes mean: images give a new volume its
 * password by statements, and a restore makes a new volume.
 */
const sqlModes = [
  'ALLOW_INVALID_DATES',
  'ERROR_FOR_DIVISION_BY_ZERO',
  'HIGH_NOT_PRECEDENCE',
  'IGNORE_SPACE',
  'NO_AUTO_VALUE_ON_ZERO',
  'NO_ENGINE_SUBSTITUTION',
  'NO_UNSIGNED_SUBTRACTION',
  'NO_ZERO_DATE',
  'NO_ZERO_IN_DATE',
  'ONLY_FULL_GROUP_BY',
  'PIPES_AS_CONCAT',
  'REAL_AS_FLOAT',
  'STRICT_ALL_TABLES',
  'STRICT_TRANS_TABLES',
];

const known: Parameters = {
  innodb_buffer_pool_size: { type: 'size', least: 32 * mib, most: 256 * gib, isReserved: true },
  innodb_flush_log_at_trx_commit: { type: 'choice', values: ['0', '1', '2'] },
  innodb_lock_wait_timeout: { type: 'number', least: 1, most: 86_400 },
  long_query_time: { type: 'number', least: 0, most: 86_400, digits: 3 },
  // a dump has rows of up to half of this
  max_allowed_packet: { type: 'size', least: mib, most: gib },
  max_connections: { type: 'number', least: 10, most: 10_000 },
  max_heap_table_size: { type: 'size', least: mib, most: 16 * gib },
  slow_query_log: { type: 'choice', values: ['ON', 'OFF'] },
  sql_mode: { type: 'list', values: sqlModes },
  tmp_table_size: { type: 'size', least: mib, most: 16 * gib },
  // a backup or a restore is idle for a while
  wait_timeout: { type: 'number', least: 60, most: 2_147_483 },
};

/** What MySQL and MariaDB have in common. Their variables differ by a prefix, their programs by name. */
export function ofMysql(
  prefix: 'MYSQL' | 'MARIADB',
  { program, server, beforeSizes = '' }: { program: string; server: string; /** A statement. */ beforeSizes?: string },
) {
  const asking = [program, `--defaults-file=${clientFile}`, '--connect-timeout=5', '--batch', '--skip-column-names'];
  return {
    port: 3306,
    dataPath: () => '/var/lib/mysql',
    usual: { username: 'app', database: 'app' },
    username,
    database: except(plainName, ownSchemas),
    configuration: ({ username: user, password, database }) => ({
      env: {
        [`${prefix}_ROOT_PASSWORD`]: password,
        [`${prefix}_USER`]: user,
        [`${prefix}_PASSWORD`]: password,
        [`${prefix}_DATABASE`]: database,
      },
      // not by variables: the programs would use them while the image prepares the data, too
      files: { [clientFile]: clientOptions({ host: '127.0.0.1', user, password }) },
    }),
    ready: [program, `--defaults-file=${clientFile}`, '--connect-timeout=5', '--batch', '--execute=SELECT 1'],
    settings: {
      known,
      command: [server],
      arguments: (values) =>
        Object.entries(values).map(([name, value]) => `--${name}=${plainValue(known[name], value)}`),
    },
    passwordKeeper: {
      files: (credentials) => ({ [passwordFile]: passwordStatements(credentials) }),
      command: [server, `--init-file=${passwordFile}`],
    },
    encryption: {
      owner: () => 999,
      files: {},
      arguments: ({ isEncrypted }: Demand) => [
        `--ssl-cert=${certificateFile}`,
        `--ssl-key=${keyFile}`,
        ...(isEncrypted ? ['--require-secure-transport=ON'] : []),
      ],
    },
    client: [program, `--defaults-file=${clientFile}`],
    usage: {
      command: [
        ...asking,
        "--execute=SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Uptime'); " +
          "SHOW GLOBAL VARIABLES WHERE Variable_name = 'max_connections'",
      ],
      read(output) {
        const values = new Map(rowsOf(output, '\t').map(([name = '', value]) => [name.toLowerCase(), value]));
        return {
          connections: numberIn(values.get('threads_connected')),
          maxConnections: numberIn(values.get('max_connections')),
          uptimeSeconds: numberIn(values.get('uptime')),
        };
      },
    },
    storage: {
      command: [
        ...asking,
        `--execute=${beforeSizes}SELECT SUM(COALESCE(data_length, 0) + COALESCE(index_length, 0)), table_schema ` +
          "FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'performance_schema') " +
          'GROUP BY table_schema ORDER BY 1 DESC LIMIT 50',
      ],
      read: (output) => rowsOf(output, '\t').map(([bytes, name = '']) => ({ name, bytes: numberIn(bytes) })),
    },
    stopSignal: 'SIGTERM',
    graceSeconds: 300,
    // as in the addresses of MySQL's own tools
    url: (address, credentials, { isEncrypted }) =>
      `${urlOf('mysql', address, credentials)}${isEncrypted ? '?ssl-mode=REQUIRED' : ''}`,
  } satisfies Partial<Engine>;
}

const restored = 'setpoint: restored';

/** Of the one database that the image made: the dump makes it again, with the character set that it had. */
const dropDatabase = [
  "SELECT CONCAT('DROP DATABASE `', schema_name, '`') INTO @setpoint_drop FROM information_schema.schemata " +
    `WHERE schema_name NOT IN (${ownSchemas.map((name) => `'${name}'`).join(', ')})`,
  'PREPARE setpoint_drop FROM @setpoint_drop',
  'EXECUTE setpoint_drop',
  'DEALLOCATE PREPARE setpoint_drop',
];

const asRoot = [`--defaults-file=${clientFile}`, '--user=root', '--default-character-set=utf8mb4'];

/** In hexadecimal a row is twice as long as it was when it was written. */
function largePackets(client: string): string[] {
  return [client, ...asRoot, '--connect-timeout=5', '--execute=SET GLOBAL max_allowed_packet = 1073741824'];
}

/** The client carries out nothing that a dump says to it, and reads no file for the server. */
function reading(client: string): string[] {
  return [
    client,
    ...asRoot,
    '--connect-timeout=5',
    '--max-allowed-packet=1G',
    '--binary-mode',
    '--local-infile=0',
    '--batch',
    '--skip-column-names',
  ];
}

/** What the engines differ in. */
export interface Dialect {
  /** The programs, and arguments of the second one that the other engine does not know. */
  client: string;
  dump: string;
  further: readonly string[];
  /** Statements that keep the passwords of the accounts that the image made, and that bring them back. */
  keep: readonly string[];
  bringBack: readonly string[];
}

/**
 * Of all databases, and of the tables of the system, which have the accounts. It is taken as `root`, whose password is that
 * of the user: the user sees no body of a routine of somebody else, and nothing beyond its own database.
 */
export function dumpOfMysql({ client, dump, further, keep, bringBack }: Dialect): Dump {
  const command = [
    dump,
    ...asRoot,
    '--all-databases',
    '--single-transaction',
    '--quick',
    '--routines',
    '--triggers',
    '--events',
    '--hex-blob',
    '--skip-dump-date',
    // under a lock on a table alone, nothing may be asked of the sequence that one of its columns takes its value from
    '--skip-add-locks',
    '--max-allowed-packet=1G',
    ...further,
  ];
  return {
    format: 'sql',
    command,
    end: { by: 'text', text: '\n-- Dump completed\n' },
    restore: {
      by: 'command',
      prepare: largePackets(client),
      command: reading(client),
      before: statements(...keep, ...dropDatabase),
      after: statements(...bringBack, 'FLUSH PRIVILEGES', `SELECT '${restored}'`),
      fault: restoreFault,
    },
    check: [...command, '--result-file=/dev/null'],
  };
}

/** As `root`: definers of views and routines are other users, and dumps set what only `root` may set. */
export function importOfMysql({ client, keep, bringBack }: Dialect): Import {
  return {
    sql: (database) => ({
      prepare: largePackets(client),
      command: [...reading(client), `--database=${database}`],
      before: statements(...keep),
      // ends a last statement that has no semicolon, and a last transaction
      after: `\n;\n${statements('COMMIT', ...bringBack, 'FLUSH PRIVILEGES', `SELECT '${restored}'`)}`,
      safe: withoutSandboxLine,
      fault: restoreFault,
    }),
  };
}

function statements(...each: readonly string[]): string {
  return each.map((statement) => `${statement};\n`).join('');
}

function restoreFault({ exitCode, output, errors }: RestoreEnd): string | undefined {
  if (exitCode !== 0) return `A part of the dump was refused: ${errors.trim().slice(-500)}`;
  return output.endsWith(`${restored}\n`) ? undefined : 'The client ended before the dump did';
}

const dialect: Dialect = {
  client: 'mysql',
  dump: 'mysqldump',
  // a new server has transactions of its own
  further: ['--set-gtid-purged=OFF'],
  keep: [
    'CREATE TEMPORARY TABLE mysql.setpoint_kept AS SELECT user, host, plugin, authentication_string ' +
      "FROM mysql.user WHERE user NOT LIKE 'mysql.%'",
  ],
  bringBack: [
    'UPDATE mysql.user AS now JOIN mysql.setpoint_kept AS kept ON now.user = kept.user AND now.host = kept.host ' +
      'SET now.plugin = kept.plugin, now.authentication_string = kept.authentication_string',
  ],
};

export const mysql: Engine = {
  ...ofMysql('MYSQL', {
    program: 'mysql',
    server: 'mysqld',
    // MySQL keeps the sizes of tables for a day once a client has asked for them
    beforeSizes: 'SET SESSION information_schema_stats_expiry = 0; ',
  }),
  type: 'mysql',
  word: 'MySQL',
  versions: ['8.4', '9'],
  image: (version) => `mysql:${version}`,
  dump: dumpOfMysql(dialect),
  imports: importOfMysql(dialect),
};
