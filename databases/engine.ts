import type { Parameters, Values } from './parameters.ts';

/** The types of databases, in the order in which lists show them. */
const databaseTypes = ['postgres', 'mysql', 'mariadb', 'redis', 'mongodb'] as const;
export type DatabaseType = (typeof databaseTypes)[number];

/** Who uses a database, in plain text. */
export interface Credentials {
  username: string;
  password: string;
  /** The database within the server, by the words of its engine. */
  database: string;
}

/** What the container of a database is begun with. All of it is secret. */
export interface Configuration {
  env: Record<string, string>;
  /** Contents of files by path, as UTF-8 text. */
  files: Record<string, string>;
}

/** Where clients find a database. */
export interface Address {
  host: string;
  port: number;
}

/** How clients are to connect. */
export interface Demand {
  /** They may not without TLS. */
  isEncrypted: boolean;
}

/** What an engine says about itself now. What it does not say is absent. */
export interface Usage {
  connections?: number;
  maxConnections?: number;
  /** Since its process started. */
  uptimeSeconds?: number;
}

/** What one of the databases of a server takes, as the engine counts it: files of its own are not in it. */
export interface Storage {
  name: string;
  bytes: number;
}

/** A question to the engine by its own client, as the user, and what its output says. */
export interface Query<Answer> {
  command: readonly string[];
  /** Reads the output of a command that ended with 0. @throws Error if it is none */
  read(output: string): Answer;
}

/**
 * How the stream of a dump ends where it is whole: with a text, or as a file of Redis, with the checksum of all that comes
 * before. `wholeDump` looks for it.
 */
export type DumpEnd = { by: 'text'; text: string } | { by: 'checksum' };

/** How a program ended that restored a dump. */
export interface RestoreEnd {
  exitCode: number;
  /** The last 4 KiB of its standard output, as UTF-8. */
  output: string;
  /** The first 64 KiB of its standard error, as UTF-8. */
  errors: string;
  /** Whether more came after these. */
  hasMoreErrors: boolean;
}

/** A program in the container of an instance that answers queries reads the dump from its standard input. */
export interface RestoreByCommand {
  by: 'command';
  /** Is run before, and must end with 0. */
  prepare?: readonly string[];
  command: readonly string[];
  /** What the program reads before the dump. */
  before: string;
  /** What it reads after the dump, once that is known to be whole (`restoreInput`). Without it no restore succeeds. */
  after: string;
  /** What went wrong, as a sentence; `undefined`: all of the dump is restored. */
  fault(end: RestoreEnd): string | undefined;
}

/** Files that are put into the volume of an instance before its first start, none of which is there yet. */
export interface RestoreByFiles {
  by: 'files';
  /** Number of the user and group whom they belong to, as all folders that are made for them. */
  owner: number;
  /** Paths below the folder that the volume is mounted at, and what is in each one. */
  files: readonly { path: string; content: { by: 'dump' } | { by: 'text'; text: string } }[];
}

/**
 * The logical backup of all that a server of the engine holds, as one stream, taken while it serves. The programs run in the
 * container of the database with its environment.
 */
export interface Dump {
  /** What the stream is, for the name of its object and its manifest. */
  format: 'sql' | 'rdb';
  /** Its standard output, without what `wholeDump` takes off its end, is the dump; it ends with 0. */
  command: readonly string[];
  end: DumpEnd;
  /**
   * How a new instance gets it, which is of the same image, with the same user and database, and empty. Its password is what
   * it was made with afterwards, not that of the time of the dump. An instance whose restore failed is of no use.
   */
  restore: RestoreByCommand | RestoreByFiles;
  /** Reads all that was restored, and ends with 0: it takes about as long as the dump. */
  check: readonly string[];
}

/** A program in the container of an empty instance that reads a dump which people bring, from its standard input. */
export interface ImportProgram {
  /** Is run before, and must end with 0. */
  prepare?: readonly string[];
  command: readonly string[];
  /** What the program reads before the dump, and after all of it. */
  before: string;
  after: string;
  /** The dump as the program may read it. @throws DumpFault if it may not */
  safe(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** What went wrong, as a sentence; `undefined`: all of the dump is there. */
  fault(end: RestoreEnd): string | undefined;
}

/**
 * How a database gets a dump that was made elsewhere, of a single database and by any user, into an empty instance. What is
 * made belongs to the user of the database. Files of Redis are restored as those of backups are.
 */
export interface Import {
  /** Says of which release the client in the container is; absent: that is of no matter. */
  release?: Query<string>;
  /** Statements. `key`: letters and digits that no dump can know. */
  sql(database: string, around: { release: string; key: string }): ImportProgram;
  /** The archive of a tool of the engine; absent: it has none. */
  custom?(database: string): ImportProgram;
}

/**
 * How an engine takes the password of its configuration whatever password its data has. A configuration alone gives it only
 * to a new volume. It is done at each start, so that data from before a rotation, such as a former volume, gets it too.
 */
export interface PasswordKeeper {
  /** Further files of the configuration. `salt`: 16 random bytes, which no other configuration has. */
  files(credentials: Credentials, salt: Uint8Array): Record<string, string>;
  /** In place of `command`. */
  command?: readonly string[];
  /** In place of `ready`: it ends with 0 once the engine has the password, too. */
  ready?: readonly string[];
}

/**
 * The settings that users may give, by name, of which the engine can keep its data and its rules whatever they are. It reads
 * them at its start: another value takes a restart.
 */
export interface Settings {
  known: Parameters;
  /** Arguments that follow the command. Values have passed `faultOf`. */
  arguments(values: Values): string[];
  /** The command that they follow where the engine has none of its own. */
  command: readonly string[];
}

/** What an engine said when it was made to begin another segment of its log, so that the archive holds this instant. */
export interface Beat {
  /** Milliseconds since the epoch, read before the transaction that is in that segment. */
  at: number;
  /** The segment that was ended. */
  segment: string;
  /** Segments that the engine could not hand over yet. */
  waiting: number;
}

/** How far a recovery is. */
export interface RecoveryStand {
  isInRecovery: boolean;
  /** It came to the wanted instant, and goes no further. */
  isPaused: boolean;
  /** When the last transaction of it was committed, in milliseconds since the epoch; absent: there was none. */
  lastCommitAt?: number;
  timeline: number;
}

/**
 * How a server of the engine is brought to any instant: by a copy of its files, and the log of its writes since then. Folders
 * are relative to where the volume is mounted.
 */
export interface Archive {
  /** The engine puts each segment of its log there once it is complete, and who sends it removes it. */
  outbox: string;
  /** A recovery reads segments from there. */
  inbox: string;
  /** Folder with the files of the server. */
  cluster(version: string): string;
  /** A file in that folder which makes the server recover when it starts. */
  signal: string;
  /** The command of a server that archives. */
  archiving(version: string): readonly string[];
  /** Parameters of a server that recovers, whatever those of the user are: it refuses less than the log was written with. */
  recoveryParameters: Values;
  /** The command of a server that recovers to an instant, and then waits; it never archives. */
  recovering(version: string, target: Date): readonly string[];
  beat: Query<Beat>;
  /** The copy of all files, as a tar on standard output. It needs the log from its begin to its end. */
  base: { command: readonly string[]; end: DumpEnd };
  /** Before the copy: the segment from which on it needs the log. After it: that up to which, and an instant that is in it. */
  baseBegin: Query<string>;
  baseEnd: Query<Beat>;
  stand: Query<RecoveryStand>;
  /** Ends a recovery: the server takes writes from then on, on a timeline of its own. */
  promote: readonly string[];
  /** Reads this from standard input: the user has the password of the container afterwards. */
  ownPassword: { command: readonly string[]; input: string };
}

/**
 * How an engine speaks TLS: its container has the certificate in `certificateFile` and the key in `keyFile`, which only the
 * user of the engine reads.
 */
export interface Encryption {
  /** Number of the user and group that an official image runs the engine as, by its reference. */
  owner(image: string): number;
  /** Further files, by path as UTF-8 text, none of which is secret. */
  files: Readonly<Record<string, string>>;
  /** Files that take the place of those of `configuration`, for the programs of the engine itself. */
  clientFiles?(credentials: Credentials): Record<string, string>;
  /** Arguments that follow all others of its command. */
  arguments(demand: Demand): string[];
}

/**
 * Where a container of an engine or of a pooler finds what it speaks TLS with, in PEM. After the certificate comes that of the
 * authority: by default, clients of MariaDB from 11.4 on prove an engine by the password alone where its chain ends in one that
 * signed itself, and refuse it where they cannot see that.
 */
export const certificateFile = '/etc/setpoint/tls.crt';
export const keyFile = '/etc/setpoint/tls.key';
/** Of the authority that issued the certificate. */
export const authorityFile = '/etc/setpoint/tls-authority.crt';

/**
 * A program between clients and a server of the engine, by which many clients share few connections. It runs in a container of
 * its own, with the variables of the server's.
 */
export interface Pooler {
  /** As people write it, such as `PgBouncer`. */
  word: string;
  /** Reference of the usual image. It has the program and the client of the engine, and is not run as root. */
  image: string;
  /** Where it listens in its container. */
  port: number;
  /** In place of that of its image. */
  entrypoint: readonly string[];
  /** A query through it as the user: it ends with 0 once the server answers queries that come by it. */
  ready: readonly string[];
  /**
   * Contents of its files by path, as UTF-8 text. The paths are the same for all. With `encryption` it speaks TLS to the
   * server and to clients, by the files of the constants above; absent: it speaks none to clients.
   */
  files(server: Address, credentials: Credentials, encryption?: Demand): Record<string, string>;
  /** Asks it to end once what its clients have begun is done. */
  stopSignal: string;
  /** Seconds that it has for that. */
  graceSeconds: number;
  memoryBytes: number;
  /** Most connections that it may have open. */
  openFiles: number;
}

/** A rule that a name must satisfy. `fault` says what is wrong with any other, as a sentence about the field. */
export interface NameRule {
  pattern: RegExp;
  fault: string;
}

/**
 * One kind of database server: how it is run in a container of its official image, how it is asked whether it is ready,
 * and what its users write. Values are pure; nothing is asked of a server here. No secret is in the arguments of a
 * program: programs find the credentials in their environment or in a file of the container.
 */
export interface Engine {
  type: DatabaseType;
  /** As people write it, such as `PostgreSQL`. */
  word: string;
  /** Major versions that can be chosen, the usual one first. */
  versions: readonly [string, ...string[]];
  /** Reference of the official image of a version. */
  image(version: string): string;
  /** Where it listens in its container. */
  port: number;
  /** Folder in the container that the volume with the data is mounted at. */
  dataPath(version: string): string;
  /** What a new database has where nothing else is asked for. */
  usual: { username: string; database: string };
  username: NameRule;
  database: NameRule;
  configuration(credentials: Credentials, version: string): Configuration;
  /** Replaces the command of the image; `undefined`: as the image says. */
  command?: readonly string[];
  /** Absent: its settings cannot be given, as of MongoDB, on which none of this could be shown. */
  settings?: Settings;
  /** A query over TCP as the user: it ends with 0 once the database answers queries. */
  ready: readonly string[];
  /** Absent: its password cannot be changed, as of MongoDB, on which none of this could be shown. */
  passwordKeeper?: PasswordKeeper;
  /** Absent: it speaks no TLS. */
  encryption?: Encryption;
  /** The engine's own client, logged in as the user. */
  client: readonly [string, ...string[]];
  usage: Query<Usage>;
  storage: Query<Storage[]>;
  /** Absent: no backup can be taken, as of MongoDB, on whose tools none of this could be shown. */
  dump?: Dump;
  /** Absent: its dumps are files, or there are none. */
  imports?: Import;
  /** Absent: the engine cannot be brought to any instant. */
  archive?: Archive;
  /** Absent: there is none. */
  pooler?: Pooler;
  /** Asks the engine to end its connections and to write what it has in memory. */
  stopSignal: string;
  /** Seconds that it has for that. A database that is killed recovers, and takes longer to be ready. */
  graceSeconds: number;
  /** Part of the memory limit that is shared memory; absent: the engine of containers decides. */
  sharedMemory?: { share: number; leastBytes: number };
  /** The form in which clients of the engine take an address with credentials, and use TLS where that is demanded. */
  url(address: Address, credentials: Credentials, demand: Demand): string;
}

/** Letters, digits, `_` and `-`, beginning with a letter or `_`: no engine reads anything else into such a name. */
export const plainName: NameRule = {
  pattern: /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/,
  fault: 'Must be 1 to 63 letters, digits, _ or -, and begin with a letter or _',
};

/** A rule that refuses some names of another one. */
export function except({ pattern, fault }: NameRule, names: readonly string[]): NameRule {
  return {
    pattern: new RegExp(`^(?!(?:${names.join('|')})$)${pattern.source.slice(1)}`, pattern.flags),
    fault: `${fault}; it cannot be ${names.join(' or ')}`,
  };
}

/** The usual form of the URL of a database: `SCHEME://USER:PASSWORD@HOST:PORT/DATABASE`. */
export function urlOf(scheme: string, { host, port }: Address, { username, password, database }: Credentials): string {
  const user = `${encode(username)}:${encode(password)}`;
  return `${scheme}://${user}@${host}:${port}/${encode(database)}`;
}

/** Percent-encodes all but letters, digits and `-._~` (RFC 3986, section 2.3): clients differ in what else they read. */
export function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Rows of output with columns between `separator`s. */
export function rowsOf(output: string, separator: string): string[][] {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(separator));
}

/** The number that a text is. @throws Error if it is none */
export function numberIn(text: string | undefined): number {
  const value = Number(text === undefined || text.trim() === '' ? Number.NaN : text);
  if (!Number.isFinite(value)) throw new Error(`Expected a number: ${JSON.stringify(text ?? '')}`);
  return value;
}
