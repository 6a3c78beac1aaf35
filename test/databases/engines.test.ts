import { describe, expect, test } from 'vitest';
import { encode, type RestoreEnd } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import { clientOptions } from '../../databases/option-file.ts';
import { DatabaseType } from '../../store/kinds/database.ts';

const printable = Array.from({ length: 95 }, (_, n) => String.fromCharCode(32 + n)).join('');

test('the types of the store are those of the engines', () => {
  expect(DatabaseType.options.toSorted()).toEqual(Object.keys(engines).toSorted());
});

describe.each(Object.values(engines))('$word', (engine) => {
  const credentials = { ...engine.usual, password: printable };

  test('has a usual user and a usual database by its own rules', () => {
    expect(engine.usual.username).toMatch(engine.username.pattern);
    expect(engine.usual.database).toMatch(engine.database.pattern);
  });

  test('has no secret in the arguments of a program', () => {
    const { command = [], ready, client, usage, storage, dump } = engine;
    const restore = dump?.restore.by === 'command' ? [dump.restore.prepare ?? [], dump.restore.command] : [];
    const words = [
      command,
      ready,
      client,
      usage.command,
      storage.command,
      dump?.command ?? [],
      dump?.check ?? [],
      ...restore,
    ];
    for (const word of words.flat()) expect(word).not.toContain(printable);
    expect(words.flat().every((word) => word.length > 0)).toBe(true);
  });

  test('has a URL from which a client reads the password back', () => {
    const address = { host: 'orders-0a1b2c', port: engine.port };
    const url = new URL(engine.url(address, credentials, { isEncrypted: false }));
    expect(decodeURIComponent(url.password)).toBe(printable);
    expect([url.hostname, url.port]).toEqual(['orders-0a1b2c', String(engine.port)]);
    expect(url.pathname).toBe(`/${engine.usual.database}`);
    const demanding = new URL(engine.url(address, credentials, { isEncrypted: true }));
    expect(demanding.search !== url.search).toBe(engine.encryption !== undefined);
  });

  test.each(engine.versions)(
    'in version %s has an image, a folder and the password in its configuration',
    (version) => {
      expect(engine.image(version)).toMatch(/^[a-z]+:\d/);
      expect(engine.dataPath(version)).toMatch(/^\//);
      const { env, files } = engine.configuration(credentials, version);
      const hasPassword = [...Object.values(env), ...Object.values(files)].some((text) => text.includes(printable));
      expect(hasPassword).toBe(true);
    },
  );
});

test.each([
  ['postgres', 'postgres', false],
  ['postgres', 'pg_monitor', false],
  ['postgres', 'pgadmin', true],
  ['mysql', 'root', false],
  ['mysql', 'rooted', true],
  ['mysql', 'mysql.sys', false],
  ['mariadb', 'a'.repeat(33), false],
  ['redis', 'app', false],
  ['mongodb', "o'brien", false],
] as const)('of %s, %s may be a user: %s', (type, name, allowed) => {
  expect(engines[type].username.pattern.test(name)).toBe(allowed);
});

describe('an engine whose password is changed', () => {
  const salt = Buffer.alloc(16, 7);

  test('has no secret in the arguments of the programs that it is kept by', () => {
    for (const { passwordKeeper: keeper } of Object.values(engines)) {
      for (const word of [...(keeper?.command ?? []), ...(keeper?.ready ?? [])]) expect(word).not.toContain(printable);
    }
  });

  test('of MySQL and MariaDB reads statements of one line each in which the password has no character', () => {
    for (const { usual, passwordKeeper } of [engines.mysql, engines.mariadb]) {
      const [text = ''] = Object.values(passwordKeeper?.files({ ...usual, password: printable }, salt) ?? {});
      expect(text).toContain(Buffer.from(printable).toString('hex'));
      expect(text).not.toContain(printable.slice(0, 3));
      for (const line of text.trimEnd().split('\n')) expect(line).toMatch(/^[^;]+;$/);
    }
  });

  test('of PostgreSQL gets what it stores of the password, which is another one with each salt', () => {
    const { usual, passwordKeeper } = engines.postgres;
    const of = (password: string, by: Uint8Array) =>
      Object.values(passwordKeeper?.files({ ...usual, password }, by) ?? {}).join('');
    expect(of(printable, salt)).not.toContain(printable);
    // of the server itself: a role that was made with this password
    expect(of('sesame open', Buffer.from('ini8WaldcQiQQoUlBjM83Q==', 'base64'))).toContain(
      "PASSWORD 'SCRAM-SHA-256$4096:ini8WaldcQiQQoUlBjM83Q==$aJ4v3h/qjeaIqSXVBm3GQokyqjh0zIaduwRNMhG/YJs=:sA8rfVKMLSExTN+yKYuk+zLM8QqdinNiQTv6r7teROc='",
    );
    expect(of(printable, salt)).not.toBe(of(printable, Buffer.alloc(16, 8)));
  });
});

describe('an engine that speaks TLS', () => {
  test('is one of PostgreSQL, MySQL and MariaDB', () => {
    const all = Object.values(engines).filter(({ encryption }) => encryption !== undefined);
    expect(all.map(({ type }) => type)).toEqual(['postgres', 'mysql', 'mariadb']);
  });

  test('gets another argument where it is to take no connection without', () => {
    for (const { encryption } of Object.values(engines)) {
      if (encryption === undefined) continue;
      const [offered, required] = [false, true].map((isEncrypted) => encryption.arguments({ isEncrypted }));
      expect(required).toEqual(expect.arrayContaining(offered ?? []));
      expect(required?.length).toBeGreaterThan(offered?.length ?? 0);
    }
  });

  test('of PostgreSQL lets programs of its own container in, and others by TLS alone', () => {
    expect(
      ['postgres:17', 'mirror.test/postgres:17.6-alpine3.22'].map((it) => engines.postgres.encryption?.owner(it)),
    ).toEqual([999, 70]);
    const [rules = ''] = Object.values(engines.postgres.encryption?.files ?? {});
    const outside = rules
      .trimEnd()
      .split('\n')
      .filter((rule) => !/^local |127\.0\.0\.1\/32|::1\/128/.test(rule));
    expect(outside).toEqual(['hostssl all all all scram-sha-256']);
  });
});

test('a percent-encoded text has only characters that mean nothing in a URL', () => {
  expect(encode(printable)).toMatch(/^([A-Za-z0-9._~-]|%[0-9A-F]{2})+$/);
  expect(decodeURIComponent(encode(printable))).toBe(printable);
});

test('an option file has each value in quotes, with what would end it escaped', () => {
  expect(clientOptions({ user: 'app', password: String.raw`a"b\c#d` })).toBe(
    ['[client]', 'user="app"', String.raw`password="a\"b\\c#d"`, ''].join('\n'),
  );
});

test.each([
  ['postgres', '3,100,86400\n', { connections: 3, maxConnections: 100, uptimeSeconds: 86_400 }],
  [
    'mysql',
    'Threads_connected\t4\nUptime\t12\nmax_connections\t151\n',
    { connections: 4, maxConnections: 151, uptimeSeconds: 12 },
  ],
  [
    'redis',
    'uptime_in_seconds:9\r\n# Clients\r\nconnected_clients:2\r\nmaxclients:10000\r\n',
    { connections: 2, maxConnections: 10_000, uptimeSeconds: 9 },
  ],
  ['mongodb', '5,838860,7.9\n', { connections: 5, maxConnections: 838_860, uptimeSeconds: 7 }],
] as const)('what %s says of its use is read', (type, output, usage) => {
  expect(engines[type].usage.read(output)).toEqual(usage);
  expect(() => engines[type].usage.read('nothing of that kind')).toThrow('Expected a number');
});

test('of MongoDB each question comes after the file that connects: mongosh takes every --eval before the first --file', () => {
  const { ready, usage, storage } = engines.mongodb;
  for (const command of [ready, usage.command, storage.command]) {
    const evaluated = command.filter((_, at) => command[at - 1] === '--eval');
    expect(command).not.toContain('--file');
    expect(evaluated).toEqual(["load('/etc/setpoint/connect.js')", command.at(-1)]);
  }
});

test('what an engine says of its storage is read, also of a database with a comma in its name', () => {
  expect(engines.postgres.storage.read('8192,app\n4096,a,b\n')).toEqual([
    { name: 'app', bytes: 8192 },
    { name: 'a,b', bytes: 4096 },
  ]);
  expect(engines.mariadb.storage.read('16384\tapp\n')).toEqual([{ name: 'app', bytes: 16_384 }]);
});

/** How the restore of an engine ends that has a program for it. */
function faultOf(type: 'postgres' | 'mariadb' | 'mysql', end: Partial<RestoreEnd>): string | undefined {
  const restore = engines[type].dump?.restore;
  if (restore?.by !== 'command') throw new Error(`${type} is restored by files`);
  return restore.fault({ exitCode: 0, output: 'setpoint: restored\n', errors: '', hasMoreErrors: false, ...end });
}

const roleThere = [
  'psql:<stdin>:35: ERROR:  55006: current user cannot be dropped',
  'LOCATION:  DropRole, user.c:1151',
  'psql:<stdin>:43: ERROR:  42710: role "app" already exists',
  'LOCATION:  CreateRole, user.c:375',
  '',
].join('\n');

test.each([
  ['the role of the cluster is there already', roleThere, undefined],
  ['a warning is told', `psql:<stdin>:9: WARNING:  01000: no\n${roleThere}`, undefined],
  [
    'it is told of a role twice',
    roleThere + roleThere,
    /^PostgreSQL refused a part of the dump: psql:<stdin>:35: ERROR/,
  ],
  [
    'something else is there already',
    `${roleThere}psql:<stdin>:99: ERROR:  42710: extension "x" already exists\nLOCATION:  CreateExtension, extension.c:1\n`,
    /psql:<stdin>:99: ERROR: {2}42710: extension "x" already exists$/,
  ],
  [
    'a connection is refused',
    'psql:<stdin>:9: error: \\connect: connection to server failed: FATAL:  no',
    /psql:<stdin>:9: error: \\connect/,
  ],
] as const)('of a restore of PostgreSQL in which %s, what is told is %o', (_, errors, fault) => {
  const told = faultOf('postgres', { errors });
  if (fault === undefined) expect(told).toBeUndefined();
  else expect(told).toMatch(fault);
});

test('of a restore of PostgreSQL that told of more than is kept, it is not known whether all of it was taken', () => {
  expect(faultOf('postgres', { errors: roleThere, hasMoreErrors: true })).toContain('more than is kept');
});

test.each(['postgres', 'mysql', 'mariadb'] as const)('a restore of %s that has no end is none', (type) => {
  expect(faultOf(type, {})).toBeUndefined();
  expect(faultOf(type, { output: '' })).toContain('ended before the dump did');
  expect(faultOf(type, { exitCode: 1, errors: 'ERROR 1064 (42000) at line 7: no' })).toContain('line 7');
});

test('of each engine but MongoDB a backup can be taken', () => {
  const without = Object.values(engines).filter(({ dump }) => dump === undefined);
  expect(without.map(({ type }) => type)).toEqual(['mongodb']);
});
