import { encode, numberIn } from './engine.ts';
import type { Dump, Engine, Settings } from './engine.ts';
import { gib, plainValue } from './parameters.ts';
import type { Parameters } from './parameters.ts';

const settingsFile = '/etc/setpoint/redis.conf';

/** The user that clients are who give only a password. */
const defaultUser = 'default';

const asking = ['redis-cli', '-h', '127.0.0.1', '-e'];

const folder = 'appendonlydir';
const base = 'appendonly.aof.1.base.rdb';
const increment = 'appendonly.aof.1.incr.aof';

/** The dump is what a replica would be sent. It is restored as the base of the log of writes, which the engine reads at its start. */
const dump: Dump = {
  format: 'rdb',
  command: [...asking, '--rdb', '-'],
  end: { by: 'checksum' },
  restore: {
    by: 'files',
    owner: 999,
    files: [
      { path: `${folder}/${base}`, content: { by: 'dump' } },
      { path: `${folder}/${increment}`, content: { by: 'text', text: '' } },
      {
        path: `${folder}/appendonly.aof.manifest`,
        content: { by: 'text', text: `file ${base} seq 1 type b\nfile ${increment} seq 1 type i\n` },
      },
    ],
  },
  // it has read all of it before it answers
  check: [...asking, 'DBSIZE'],
};

const known: Parameters = {
  appendfsync: { type: 'choice', values: ['always', 'everysec', 'no'] },
  // the user may have chosen any of the first sixteen
  databases: { type: 'number', least: 16, most: 10_000 },
  maxclients: { type: 'number', least: 10, most: 50_000 },
  // a backup needs memory beside it
  maxmemory: { type: 'size', least: 0, most: 1024 * gib, isReserved: true },
  'maxmemory-policy': {
    type: 'choice',
    values: [
      'noeviction',
      'allkeys-lru',
      'allkeys-lfu',
      'allkeys-random',
      'volatile-lru',
      'volatile-lfu',
      'volatile-random',
      'volatile-ttl',
    ],
  },
  'slowlog-log-slower-than': { type: 'number', least: 0, most: 3_600_000_000 },
  'tcp-keepalive': { type: 'number', least: 0, most: 86_400 },
  timeout: { type: 'number', least: 0, most: 2_147_483 },
};

/**
 * `appendonly` is not among them: a start without the log of writes would be one without data, and the next one with it would
 * begin a new log.
 */
const settings: Settings = {
  known,
  command: ['redis-server', settingsFile],
  arguments: (values) =>
    Object.entries(values).flatMap(([name, value]) => [`--${name}`, plainValue(known[name], value)]),
};

export const redis: Engine = {
  type: 'redis',
  word: 'Redis',
  versions: ['8', '7'],
  image: (version) => `redis:${version}`,
  port: 6379,
  dataPath: () => '/data',
  usual: { username: defaultUser, database: '0' },
  username: { pattern: /^default$/, fault: 'Must be default, the user of who gives only a password' },
  database: { pattern: /^(\d|1[0-5])$/, fault: 'Must be the number of a database, 0 to 15' },
  configuration: ({ password }) => ({
    env: { REDISCLI_AUTH: password },
    files: {
      [settingsFile]: [
        'bind * -::*',
        'dir /data',
        // every second on disk: what was acknowledged longer ago survives a crash
        'appendonly yes',
        'appendfsync everysec',
        // a backup is read as by a replica: there is no other one to wait for
        'repl-diskless-sync-delay 0',
        `requirepass "${escaped(password)}"`,
        '',
      ].join('\n'),
    },
  }),
  command: ['redis-server', settingsFile],
  ready: ['redis-cli', '-h', '127.0.0.1', '-e', 'PING'],
  settings,
  // the password is in its file of settings alone
  passwordKeeper: { files: () => ({}) },
  client: ['redis-cli', '-h', '127.0.0.1'],
  usage: {
    command: [...asking, 'INFO', 'server', 'clients'],
    read(output) {
      const values = fieldsOf(output);
      return {
        connections: numberIn(values.get('connected_clients')),
        maxConnections: numberIn(values.get('maxclients')),
        uptimeSeconds: numberIn(values.get('uptime_in_seconds')),
      };
    },
  },
  storage: {
    command: [...asking, 'INFO', 'memory'],
    read: (output) => [{ name: 'memory', bytes: numberIn(fieldsOf(output).get('used_memory')) }],
  },
  dump,
  stopSignal: 'SIGTERM',
  graceSeconds: 120,
  url: ({ host, port }, { password, database }) => `redis://:${encode(password)}@${host}:${port}/${database}`,
};

/** Each byte beyond letters and digits as `\xNN`, which the file of settings reads within quotes. */
function escaped(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      return /[A-Za-z0-9]/.test(character) ? character : String.raw`\x` + byte.toString(16).padStart(2, '0');
    })
    .join('');
}

/** The fields of what INFO answers: lines `NAME:VALUE`. */
function fieldsOf(output: string): Map<string, string> {
  return new Map(
    output.split(/\r?\n/).flatMap((line) => {
      const at = line.indexOf(':');
      return at === -1 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const];
    }),
  );
}
