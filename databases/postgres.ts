import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { certificateFile, except, keyFile, numberIn, plainName, rowsOf, urlOf } from './engine.ts';
import type {
  Archive,
  Beat,
  Dump,
  Encryption,
  Engine,
  Import,
  PasswordKeeper,
  RestoreEnd,
  Settings,
} from './engine.ts';
import { gib, kib, mib, plainValue } from './parameters.ts';
import { pgbouncer } from './pgbouncer.ts';
import { safeScript } from './postgres-script.ts';

const versions = ['17', '18', '16', '15'] as const;

/** From this version on the image has a folder per version below the one that it declares as its volume. */
const firstWithFolders = 18;

function isWithFolders(version: string): boolean {
  return Number.parseInt(version, 10) >= firstWithFolders;
}

/** Without settings of a user, in rows without headings and with commas. */
const asking = ['psql', '-XqtA', '-F', ',', '-c'];

const usageQuery =
  "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), " +
  "current_setting('max_connections'), floor(extract(epoch FROM now() - pg_postmaster_start_time()))";

const restored = 'setpoint: restored';

/** Settings that roles and databases of the dump may have otherwise, for every connection that it makes. */
const session = ['default_transaction_read_only=off', 'client_min_messages=warning'];

/**
 * The dump drops the databases that a new cluster has and makes them as they were, so that they have their encoding,
 * owner and settings. The role that the cluster was made with can neither be dropped nor made again, which is where the
 * two errors come from that `isExpected` knows. Its password is kept as what the server stores of it.
 */
const dump: Dump = {
  format: 'sql',
  // what is in tablespaces of other folders goes to the usual one: a new container does not have these folders
  command: ['pg_dumpall', '--no-password', '--clean', '--if-exists', '--no-tablespaces', '--lock-wait-timeout=300s'],
  end: { by: 'text', text: '\n--\n-- PostgreSQL database cluster dump complete\n--\n\n' },
  restore: {
    by: 'command',
    command: [
      'psql',
      '--no-psqlrc',
      '--no-password',
      '--quiet',
      '--output=/dev/null',
      `--dbname=dbname=postgres options='${session.map((it) => `-c ${it}`).join(' ')}'`,
      '--file=-',
    ],
    before: [
      // each error is told with its code and the place in the server that it comes from, in words of no language
      String.raw`\set VERBOSITY verbose`,
      'SELECT rolpassword AS setpoint_password FROM pg_catalog.pg_authid WHERE rolname = current_user',
      String.raw`\gset`,
      '',
    ].join('\n'),
    after: [
      String.raw`\set ON_ERROR_STOP on`,
      "ALTER ROLE CURRENT_USER PASSWORD :'setpoint_password';",
      String.raw`\echo '${restored}'`,
      '',
    ].join('\n'),
    fault: restoreFault,
  },
  check: ['pg_dumpall', '--no-password', '--no-sync', '--file=/dev/null'],
};

/** The first minor releases whose `psql` has `\\restrict`; later major ones have it from their first one. */
const firstRestricted: Readonly<Partial<Record<string, number>>> = { 13: 22, 14: 19, 15: 14, 16: 10, 17: 6 };

/** Whether `psql` of a release can refuse all commands in what it reads. */
function isRestrictable(release: string): boolean {
  const [, major = '', minor = ''] = /^(\d+)\.(\d+)/.exec(release) ?? [];
  const first = firstRestricted[major];
  return first === undefined ? Number(major) > 17 : Number(minor) >= first;
}

/**
 * Statements are read by `psql`, which ends at the first error; it reads no command among them, and refuses them itself where
 * its release can. A `COPY` that the server refuses never leaves its data to be read as statements.
 */
const imports: Import = {
  release: {
    command: ['psql', '--version'],
    read: (output) => /\d+\.\d+/.exec(output)?.[0] ?? '',
  },
  sql(database, { release, key }) {
    const isRestricted = isRestrictable(release);
    return {
      command: [
        'psql',
        '--no-psqlrc',
        '--no-password',
        '--quiet',
        '--output=/dev/null',
        '--set=ON_ERROR_STOP=1',
        `--dbname=dbname=${database} options='-c client_min_messages=warning'`,
        '--file=-',
      ],
      before: isRestricted ? `\\restrict ${key}\n` : '',
      // commands stay refused, so that the server says that psql came to the end
      after: [
        '',
        'COMMIT;',
        'SET client_min_messages = warning;',
        `DO $setpoint$ BEGIN RAISE WARNING '${restored}'; END $setpoint$;`,
        '',
      ].join('\n'),
      safe: (source) => safeScript(source, { isRestricted }),
      fault({ exitCode, errors, hasMoreErrors }) {
        if (exitCode !== 0) return `PostgreSQL refused a part of the dump: ${firstError(errors)}`;
        if (errors.includes(`WARNING:  ${restored}\n`)) return undefined;
        return hasMoreErrors
          ? `psql told of more than is kept, at first: ${errors.slice(0, 500)}`
          : 'psql did not come to the end of the dump: make it in the custom format, by pg_dump -Fc';
      },
    };
  },
  custom: (database) => ({
    command: [
      'pg_restore',
      '--no-password',
      '--no-owner',
      '--no-privileges',
      '--exit-on-error',
      `--dbname=dbname=${database}`,
    ],
    before: '',
    after: '',
    safe: (source) => source,
    fault: ({ exitCode, errors }) =>
      exitCode === 0 ? undefined : `pg_restore refused a part of the dump: ${errors.trim().slice(-500)}`,
  }),
};

function firstError(errors: string): string {
  const at = errors.search(/^psql:.*: (?:ERROR|FATAL|error):/m);
  return errors.slice(Math.max(0, at)).trim().slice(0, 500);
}

/** What comes before a statement with a password, whatever users have set: no log has it, and nothing ends it. */
const unlogged = [
  'SET default_transaction_read_only = off;',
  'SET statement_timeout = 0;',
  "SET log_statement = 'none';",
  'SET log_min_duration_statement = -1;',
  "SET log_min_error_statement = 'panic';",
];

const readyFile = '/etc/setpoint/ready.sql';

/**
 * Asks the engine as `ready` does, and gives it the password where it has another one. The image lets programs of its own
 * container log in without one. What is compared and sent is what the server stores of a password, and no log of statements
 * has it.
 */
const passwordKeeper: PasswordKeeper = {
  files: ({ password }, salt) => {
    const stored = storedPassword(password, salt);
    return {
      [readyFile]: [
        ...unlogged,
        `SELECT rolpassword IS DISTINCT FROM '${stored}' AS setpoint_differs FROM pg_catalog.pg_authid WHERE rolname = current_user`,
        String.raw`\gset`,
        String.raw`\if :setpoint_differs`,
        `ALTER ROLE CURRENT_USER PASSWORD '${stored}';`,
        String.raw`\endif`,
        '',
      ].join('\n'),
    };
  },
  ready: ['psql', '-XqtA', '-v', 'ON_ERROR_STOP=1', '-f', readyFile],
};

/** What the server stores of a password of ASCII (RFC 5803). */
function storedPassword(password: string, salt: Uint8Array): string {
  const iterations = 4096;
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const keyed = (text: string) => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const serverKey = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${iterations}:${Buffer.from(salt).toString('base64')}$${storedKey}:${serverKey}`;
}

const mostConnections = 5000;

/** Of these, the engine shares out `shared_buffers` at its start. */
const settings: Settings = {
  known: {
    effective_cache_size: { type: 'size', least: mib, most: 1024 * gib },
    idle_in_transaction_session_timeout: { type: 'milliseconds', least: 0, most: 86_400_000 },
    lock_timeout: { type: 'milliseconds', least: 0, most: 86_400_000 },
    log_min_duration_statement: { type: 'milliseconds', least: 0, most: 86_400_000, off: true },
    maintenance_work_mem: { type: 'size', least: mib, most: 64 * gib },
    // three of them are kept for superusers, ten for those who send backups
    max_connections: { type: 'number', least: 20, most: mostConnections },
    random_page_cost: { type: 'number', least: 0, most: 1000, digits: 3 },
    shared_buffers: { type: 'size', least: mib, most: 256 * gib, isReserved: true },
    statement_timeout: { type: 'milliseconds', least: 0, most: 86_400_000 },
    work_mem: { type: 'size', least: 64 * kib, most: 64 * gib },
  },
  command: ['postgres'],
  arguments: (values) =>
    Object.entries(values).flatMap(([name, value]) => {
      const { type } = settings.known[name] ?? {};
      // its own units are `kB` and `ms`
      const taken = type === 'size' ? `${Number(plainValue(settings.known[name], value)) / kib}kB` : value;
      return ['-c', `${name}=${taken}`];
    }),
};

const accessFile = '/etc/setpoint/pg_hba.conf';

/**
 * The access rules that the image makes, with TLS for all who come from outside of the container. What the engine reads in
 * their place is no file of the data: a restore and a former volume change nothing of it.
 */
const encryption: Encryption = {
  // as `postgres:17-alpine`
  owner: (image) => (/:[^/]*alpine/.test(image) ? 70 : 999),
  files: {
    [accessFile]: [
      'local all all trust',
      'host all all 127.0.0.1/32 trust',
      'host all all ::1/128 trust',
      'local replication all trust',
      'host replication all 127.0.0.1/32 trust',
      'host replication all ::1/128 trust',
      'hostssl all all all scram-sha-256',
      '',
    ].join('\n'),
  },
  arguments: ({ isEncrypted }) =>
    Object.entries({
      ssl: 'on',
      ssl_cert_file: certificateFile,
      ssl_key_file: keyFile,
      ...(isEncrypted && { hba_file: accessFile }),
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
};

const [outbox, inbox] = ['wal-archive', 'wal-recovery'];

function dataPath(version: string): string {
  return isWithFolders(version) ? '/var/lib/postgresql' : '/var/lib/postgresql/data';
}

/**
 * A segment is there under its name once all of it is on the disk, and never with other bytes than the first time. What the
 * shell reads is made of the words of PostgreSQL alone.
 */
function archiveCommand(version: string): string {
  const folder = `${dataPath(version)}/${outbox}`;
  const [file, growing] = [`${folder}/%f`, `${folder}/.%f.growing`];
  return (
    `if test -e ${file}; then cmp -s %p ${file}; ` +
    `else cp %p ${growing} && sync ${growing} && mv ${growing} ${file} && sync ${folder}; fi`
  );
}

function withSettings(values: Readonly<Record<string, string>>): string[] {
  return ['postgres', ...Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

const sinceEpoch = (time: string): string => `floor(extract(epoch FROM ${time}) * 1000)`;
const unarchived = "(SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready')";

/**
 * The instant is read before a transaction of its own, which is in the segment that ends after it: a recovery to that
 * instant finds a later commit, without which PostgreSQL refuses it.
 */
const beat = {
  command: [
    'psql',
    '-XqtA',
    '-F',
    ',',
    '-v',
    'ON_ERROR_STOP=1',
    '-c',
    `SELECT ${sinceEpoch('clock_timestamp()')}`,
    '-c',
    "SELECT pg_logical_emit_message(true, 'setpoint', '') IS NULL",
    '-c',
    `SELECT pg_walfile_name(pg_switch_wal()), ${unarchived}`,
  ],
  read(output: string): Beat {
    const [[at] = [], , [segment = '', waiting] = []] = rowsOf(output, ',');
    return { at: numberIn(at), segment, waiting: numberIn(waiting) };
  },
};

const archive: Archive = {
  outbox,
  inbox,
  cluster: (version) => (isWithFolders(version) ? `${version}/docker` : 'pgdata'),
  signal: 'recovery.signal',
  archiving: (version) =>
    withSettings({
      wal_level: 'replica',
      archive_mode: 'on',
      archive_timeout: '60',
      archive_library: '',
      archive_command: archiveCommand(version),
    }),
  recoveryParameters: { max_connections: String(mostConnections) },
  recovering: (version, target) =>
    withSettings({
      archive_mode: 'off',
      hot_standby: 'on',
      restore_command: `cp ${dataPath(version)}/${inbox}/%f %p`,
      // PostgreSQL knows no `Z`
      recovery_target_time: target.toISOString().replace('T', ' ').replace('Z', '+00'),
      recovery_target_inclusive: 'on',
      recovery_target_action: 'pause',
      recovery_target_timeline: 'current',
    }),
  beat,
  base: {
    command: ['pg_basebackup', '--no-password', '-D', '-', '-F', 'tar', '-X', 'none', '-c', 'fast'],
    end: { by: 'text', text: '\0'.repeat(1024) },
  },
  baseBegin: {
    command: [...asking, 'SELECT pg_walfile_name(pg_current_wal_lsn())'],
    read: (output) => output.trim(),
  },
  baseEnd: beat,
  stand: {
    command: [
      ...asking,
      "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() ELSE '' END, " +
        `${sinceEpoch('pg_last_xact_replay_timestamp()')}, CASE WHEN pg_is_in_recovery() THEN ` +
        '(SELECT timeline_id::text FROM pg_control_checkpoint()) ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END',
    ],
    read(output) {
      const [recovering, state, lastCommit = '', timeline = ''] = rowsOf(output.trim(), ',')[0] ?? [];
      const isInRecovery = recovering === 't';
      return {
        isInRecovery,
        isPaused: state === 'paused',
        timeline: Number.parseInt(timeline, isInRecovery ? 10 : 16),
        ...(lastCommit !== '' && { lastCommitAt: numberIn(lastCommit) }),
      };
    },
  },
  promote: [...asking, 'SET statement_timeout = 0', '-c', 'SELECT pg_promote(true, 300)'],
  ownPassword: {
    command: ['psql', '-XqtA', '-v', 'ON_ERROR_STOP=1', '--file=-'],
    input: [
      ...unlogged,
      String.raw`\getenv setpoint_password PGPASSWORD`,
      "ALTER ROLE CURRENT_USER PASSWORD :'setpoint_password';",
      '',
    ].join('\n'),
  },
};

export const postgres: Engine = {
  type: 'postgres',
  word: 'PostgreSQL',
  versions,
  image: (version) => `postgres:${version}`,
  port: 5432,
  dataPath,
  usual: { username: 'app', database: 'app' },
  username: except(plainName, ['postgres', 'pg_.*']),
  database: except(plainName, ['postgres', 'template0', 'template1']),
  configuration: ({ username, password, database }, version) => ({
    env: {
      POSTGRES_USER: username,
      POSTGRES_PASSWORD: password,
      POSTGRES_DB: database,
      // the folder of a volume may have other files, such as `lost+found`, which initdb refuses
      ...(!isWithFolders(version) && { PGDATA: '/var/lib/postgresql/data/pgdata' }),
      // for the programs of the engine that are run beside it
      PGHOST: '127.0.0.1',
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: database,
    },
    files: {},
  }),
  ready: ['psql', '-XqtA', '-c', 'SELECT 1'],
  settings,
  passwordKeeper,
  encryption,
  client: ['psql'],
  usage: {
    command: [...asking, usageQuery],
    read(output) {
      const [connections, maxConnections, uptime] = rowsOf(output, ',')[0] ?? [];
      return {
        connections: numberIn(connections),
        maxConnections: numberIn(maxConnections),
        uptimeSeconds: numberIn(uptime),
      };
    },
  },
  storage: {
    command: [
      ...asking,
      'SELECT pg_database_size(oid), datname FROM pg_database WHERE NOT datistemplate ORDER BY 1 DESC LIMIT 50',
    ],
    read: (output) => rowsOf(output, ',').map(([bytes, ...name]) => ({ name: name.join(','), bytes: numberIn(bytes) })),
  },
  dump,
  imports,
  archive,
  pooler: pgbouncer,
  // ends connections and then itself; SIGTERM waits until clients go by themselves
  stopSignal: 'SIGINT',
  graceSeconds: 300,
  sharedMemory: { share: 0.25, leastBytes: 64 * 1024 * 1024 },
  url: (address, credentials, { isEncrypted }) =>
    `${urlOf('postgresql', address, credentials)}${isEncrypted ? '?sslmode=require' : ''}`,
};

/** An error that `psql` tells of, with the function of the server that it comes from where it is the server's. */
interface ToldError {
  line: string;
  code: string | undefined;
  place: string | undefined;
}

function restoreFault({ exitCode, output, errors, hasMoreErrors }: RestoreEnd): string | undefined {
  const told = toldErrors(errors);
  const unexpected = told.find((one, index) => !isExpected(one, told.slice(0, index)));
  if (unexpected !== undefined) return `PostgreSQL refused a part of the dump: ${unexpected.line.slice(0, 500)}`;
  // an error may be among those that nobody kept, as psql goes on after one
  if (hasMoreErrors) return `psql told of more than is kept, at first: ${errors.slice(0, 500)}`;
  if (exitCode !== 0) return `psql ended with ${exitCode}: ${errors.trim().slice(-500)}`;
  if (!output.endsWith(`${restored}\n`)) return 'psql ended before the dump did';
  return undefined;
}

/** An error of the server with its code, or one of `psql`, but no warning. */
const toldError = /^psql:<stdin>:\d+: (?!(?:WARNING|NOTICE|INFO|LOG|DEBUG):)[A-Za-z]+: {1,2}(?:([0-9A-Z]{5}): )?/;

function toldErrors(text: string): ToldError[] {
  const lines = text.split('\n');
  return lines.flatMap((line, index) => {
    const match = toldError.exec(line);
    if (match === null) return [];
    return [{ line, code: match[1], place: /^LOCATION: {2}(\w+), /.exec(lines[index + 1] ?? '')?.[1] }];
  });
}

/** Whether it is that of the role that is there already, which comes once from each of two statements. */
function isExpected({ code, place }: ToldError, earlier: readonly ToldError[]): boolean {
  const isOfRole = (code === '55006' && place === 'DropRole') || (code === '42710' && place === 'CreateRole');
  return isOfRole && earlier.every((one) => one.place !== place);
}
