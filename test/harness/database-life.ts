import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ApiObject } from '../../cli/client.ts';
import { environmentNetwork } from '../../controllers/rollout/environment-network.ts';
import { engines } from '../../databases/engines.ts';
import { CommandLine } from './command-line.ts';
import { ensureDatabaseImage } from './database-images.ts';
import type { DatabaseEngine } from './database-images.ts';
import { docker, instancesOf } from './engine.ts';
import { Installation } from './installation.ts';
import { ensurePoolerImage } from './pooler-image.ts';
import { freePort } from './program.ts';
import { s3Gateway } from './s3-gateway.ts';
import type { S3Gateway } from './s3-gateway.ts';
import { ensureTestImages } from './test-image.ts';

const patientMs = 120_000;
const Encrypted = z.object({ ca: z.string() });
const Pooled = z.object({ pooled_connection_string: z.string() });
/** Each printable character of ASCII. */
const password = Array.from({ length: 95 }, (_, n) => String.fromCharCode(32 + n)).join('');

/** Statements that need roles. */
const ofOthers = '\nALTER TABLE public.notes OWNER TO somebody;\nGRANT SELECT ON TABLE public.notes TO reader;\n';

interface Dialect {
  type: DatabaseEngine;
  /** Arguments of the engine's client that write a row, and that count the rows. */
  write: readonly string[];
  count: readonly string[];
  /** The same by a client of another machine: a program, its arguments, its environment. */
  countFrom: (address: URL) => { program: string; args: readonly string[]; env?: Readonly<Record<string, string>> };
  /** A value for each parameter of the engine, and a question for some of them with its answer. */
  parameters: Readonly<Record<string, string>>;
  asked: readonly (readonly [question: readonly string[], answer: RegExp])[];
  /** Clients in its environment, whose password is in the variable: one that knows the authority in `/ca.pem`, and one without TLS. */
  tls?: {
    variable: string;
    trusting: (host: string, port: number) => readonly string[];
    plain: (host: string) => readonly string[];
  };
  /** Parameters with which its engine does not start on this machine, where there are any. */
  tooMuch?: Readonly<Record<string, string>>;
  /** A program that writes a dump as people bring it, where an import is tried. */
  dumping?: readonly string[];
  /** Accounts with the password of the database. */
  users: readonly string[];
  /** A client that logs in from beyond loopback; the password is in a variable. */
  login: (user: string, host: string) => { variable: string; command: readonly string[] };
}

const sslVersion = "SHOW STATUS LIKE 'Ssl_version'";

const ofMysql = (client: string, modes: { trusting: readonly string[]; plain: string }): Omit<Dialect, 'type'> => ({
  tls: {
    variable: 'MYSQL_PWD',
    trusting: (host, port) => [
      client,
      `-h${host}`,
      `-P${port}`,
      '-uapp',
      '--ssl-ca=/ca.pem',
      ...modes.trusting,
      '-BNe',
      sslVersion,
    ],
    plain: (host) => [client, '-h', host, '-u', 'app', modes.plain, '-BNe', 'SELECT 1'],
  },
  write: ['app', '-e', 'CREATE TABLE IF NOT EXISTS notes (n int); INSERT INTO notes VALUES (1)'],
  count: ['app', '-BNe', 'SELECT count(*) FROM notes'],
  parameters: {
    innodb_buffer_pool_size: '64m',
    innodb_flush_log_at_trx_commit: '1',
    innodb_lock_wait_timeout: '20',
    long_query_time: '0.5',
    max_allowed_packet: '32m',
    max_connections: '77',
    max_heap_table_size: '8m',
    slow_query_log: 'ON',
    sql_mode:
      'ALLOW_INVALID_DATES,ERROR_FOR_DIVISION_BY_ZERO,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,' +
      'NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,' +
      'ONLY_FULL_GROUP_BY,PIPES_AS_CONCAT,REAL_AS_FLOAT,STRICT_ALL_TABLES,STRICT_TRANS_TABLES',
    tmp_table_size: '8m',
    wait_timeout: '600',
  },
  asked: [
    [['-BNe', 'SELECT @@max_connections, @@innodb_buffer_pool_size, @@global.wait_timeout'], /^77\t67108864\t600$/],
    [['-BNe', 'SELECT @@sql_mode'], /REAL_AS_FLOAT.*NO_UNSIGNED_SUBTRACTION/],
  ],
  users: ['app', 'root'],
  login: (user, host) => ({ variable: 'MYSQL_PWD', command: [client, '-h', host, '-u', user, '-e', 'SELECT 1'] }),
  countFrom: ({ port, username }) => ({
    program: client,
    args: ['-h127.0.0.1', `-P${port}`, `-u${username}`, 'app', '-BNe', 'SELECT count(*) FROM notes'],
    env: { MYSQL_PWD: password },
  }),
});
const dialects: Readonly<Record<DatabaseEngine, Omit<Dialect, 'type'>>> = {
  postgres: {
    tls: {
      variable: 'PGPASSWORD',
      trusting: (host, port) => [
        'psql',
        `host=${host} port=${port} user=app dbname=app sslmode=verify-full sslrootcert=/ca.pem`,
        '-XqtAc',
        'SELECT 1',
        '-c',
        String.raw`\conninfo`,
      ],
      plain: (host) => ['psql', `host=${host} user=app dbname=app sslmode=disable`, '-XqtAc', 'SELECT 1'],
    },
    write: ['-c', 'CREATE TABLE IF NOT EXISTS notes (n int); INSERT INTO notes VALUES (1)'],
    count: ['-XqtA', '-c', 'SELECT count(*) FROM notes'],
    parameters: {
      effective_cache_size: '256m',
      idle_in_transaction_session_timeout: '60000',
      lock_timeout: '30000',
      log_min_duration_statement: '-1',
      maintenance_work_mem: '32m',
      max_connections: '42',
      random_page_cost: '1.1',
      shared_buffers: '48m',
      statement_timeout: '60000',
      work_mem: '2m',
    },
    asked: [
      [
        [
          '-XqtAc',
          "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('max_connections', 'shared_buffers', 'statement_timeout', 'work_mem')",
        ],
        /^42 6144 60000 2048$/,
      ],
    ],
    tooMuch: { shared_buffers: '256g' },
    dumping: ['pg_dump', 'app'],
    users: ['app'],
    login: (user, host) => ({ variable: 'PGPASSWORD', command: ['psql', '-h', host, '-U', user, '-c', 'SELECT 1'] }),
    countFrom: ({ href }) => ({ program: 'psql', args: [href, '-XqtA', '-c', 'SELECT count(*) FROM notes'] }),
  },
  mysql: ofMysql('mysql', { trusting: ['--ssl-mode=VERIFY_IDENTITY'], plain: '--ssl-mode=DISABLED' }),
  mariadb: ofMysql('mariadb', { trusting: ['--ssl-verify-server-cert'], plain: '--skip-ssl' }),
  redis: {
    write: ['RPUSH', 'notes', '1'],
    count: ['LLEN', 'notes'],
    parameters: {
      appendfsync: 'always',
      databases: '20',
      maxclients: '100',
      maxmemory: '64m',
      'maxmemory-policy': 'allkeys-lru',
      'slowlog-log-slower-than': '5000',
      'tcp-keepalive': '60',
      timeout: '600',
    },
    asked: [
      [['CONFIG', 'GET', 'maxmemory'], /67108864/],
      [['CONFIG', 'GET', 'databases'], /20/],
      [['CONFIG', 'GET', 'maxmemory-policy'], /allkeys-lru/],
    ],
    users: ['default'],
    login: (_, host) => ({ variable: 'REDISCLI_AUTH', command: ['redis-cli', '-h', host, '-e', 'PING'] }),
    countFrom: ({ port }) => ({
      program: 'redis-cli',
      args: ['-p', port, 'LLEN', 'notes'],
      env: { REDISCLI_AUTH: password },
    }),
  },
};

/** The life of databases of these engines on a real engine of containers, from their creation to their deletion. */
export function describeDatabases(...types: readonly DatabaseEngine[]): void {
  describe.each(types.map((type): Dialect => ({ type, ...dialects[type] })))('a database of $type', live);
}

function live(dialect: Dialect): void {
  const { type, write, count, countFrom, users, login, parameters, asked, tooMuch, dumping, tls } = dialect;
  let town: Installation;
  let database: ApiObject;
  let base: string;
  let backup: ApiObject;
  let gateway: S3Gateway;
  const engine = engines[type];

  beforeAll(async () => {
    const image = await ensureDatabaseImage(type);
    gateway = await s3Gateway();
    const images = ['--engine-images', `${type}=${image}`];
    if (engine.pooler !== undefined) images.push('--pooler-image', await ensurePoolerImage());
    town = await Installation.start({ store: 'sqlite', serverFlags: images });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  const is = (status: string): Promise<ApiObject> =>
    town.until(
      `the database is ${status}`,
      async () => {
        const now = await town.client.object('GET', base);
        const ready = now.conditions?.find((one) => one.type === 'Ready')?.status;
        const isDone = now.observed_generation === now.generation && (status !== 'running' || ready === 'true');
        return now.status === status && isDone && now;
      },
      patientMs,
    );
  /** In one answer of the engine: what goes meanwhile is there as a whole, or not at all. */
  const containers = async (of = database.id): Promise<{ name: string; id: string }[]> => {
    const filter = `label=${labels.workload}=${of}`;
    const format = '{{.ID}} {{.Names}}';
    const listed = await docker('ps', '--all', '--no-trunc', '--filter', filter, '--format', format);
    return listed
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => ({ id: line.split(' ')[0] ?? '', name: line.split(' ')[1] ?? '' }));
  };
  const containerOf = async (what: 'engine' | 'pooler', of = database.id): Promise<string> => {
    const found = (await containers(of)).find(({ name }) => name.includes('-pooler-') === (what === 'pooler'));
    return found?.id ?? '';
  };
  const container = (): Promise<string> => containerOf('engine');
  const client = async (args: readonly string[]): Promise<string> =>
    docker('exec', await container(), ...engine.client, ...args);
  /** Whether it lets an account in that gives a password from beyond loopback. */
  const logsIn = async (user: string, given: string): Promise<boolean> => {
    const [id, format] = [await container(), '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'];
    const { variable, command } = login(user, await docker('inspect', '--format', format, id));
    return docker('exec', '--env', `${variable}=${given}`, id, ...command).then(
      () => true,
      () => false,
    );
  };
  const rows = async (): Promise<number> => Number((await client(count)).trim());
  const ended = async (it: ApiObject, kind: 'backups' | 'restores', status: string): Promise<ApiObject> => {
    let now = it;
    const isEnded = async (): Promise<boolean> => {
      now = await town.client.object('GET', `/api/v1/${kind}/${it.id}`);
      return now.status === 'completed' || now.status === 'failed';
    };
    await town.until(`${it.id} has ended`, isEnded, patientMs).catch((cause: unknown) => {
      throw new Error(`It has not ended: ${JSON.stringify(now)}`, { cause });
    });
    expect({ status: now.status, error: now['error'] }).toEqual({ status, error: null });
    return now;
  };
  const restored = async (body: object): Promise<void> => {
    await ended(await town.client.object('POST', `${base}/restore`, body), 'restores', 'completed');
    database = await is('running');
  };
  const verb = (name: string): Promise<unknown> => town.client.request('POST', `${base}/${name}`, {});

  it('is made ready with a password of any characters, and asked as its user', async () => {
    database = await town.client.object('POST', '/api/v1/databases', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'orders',
      type,
      password,
    });
    base = `/api/v1/databases/${database.id}`;
    expect(JSON.stringify(database)).not.toContain('password');
    await is('running');
    await client(write);
    expect(await rows()).toBe(1);
    const logs = await town.client.request('GET', `${base}/logs`);
    expect(logs).toMatchObject({ lines: expect.arrayContaining([expect.anything()]) });
  });

  it('is reached by an application of its environment with the address that its variable refers to', async () => {
    const { http } = await ensureTestImages();
    const port = await freePort();
    const app = await town.createApplication({
      source_type: 'image',
      image_url: http,
      exposed_port: port,
      min_healthy_seconds: 1,
      env: { PORT: String(port), DATABASE_URL: '${databases.orders.url}', PLAIN: '${databases.orders.password}' },
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    const credentials = await town.client.request('GET', `${base}/credentials`);
    const seen = async (name: string) => (await fetch(`http://127.0.0.1:${port}/env/${name}`)).text();
    expect(await seen('PLAIN')).toBe(password);
    expect(credentials).toMatchObject({ password, internal_connection_string: await seen('DATABASE_URL') });
    const { host, port: listens } = new URL(await seen('DATABASE_URL'));
    expect(`${host}`).toContain(listens);
    const [instance = ''] = await instancesOf(app.id);
    const script = `require('node:net').connect(${listens}, '${host.split(':')[0]}', () => process.exit(0))`;
    await docker('exec', instance, '/bin/node', '-e', script);
  });

  it('is reached from a machine of a user, by the agent of its server', async () => {
    await using cli = await CommandLine.open();
    const { server, token = '' } = town.client.connection;
    const connecting = cli.start(['db', 'connect', 'orders'], { SETPOINT_URL: server, SETPOINT_TOKEN: token });
    await connecting.prints('\n');
    const { program, args, env = {} } = countFrom(new URL(connecting.out().trim()));
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const image = await ensureDatabaseImage(type);
    const run = ['run', '--rm', '--network', 'host', ...variables, '--entrypoint', program, image, ...args];
    expect(Number((await docker(...run)).trim())).toBe(1);
    expect(await connecting.interrupt()).toMatchObject({ code: 0 });
  });

  /** What a client in its environment prints that knows the authority. */
  const inEnvironment = async (command: readonly string[]): Promise<string> => {
    const { ca } = Encrypted.parse(await town.client.request('GET', `${base}/credentials`));
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-authority-'));
    const file = join(folder, 'ca.pem');
    try {
      await writeFile(file, ca);
      await chmod(folder, 0o755);
      const network = environmentNetwork(String(database['environment_id']));
      const [program = '', ...args] = command;
      const given = ['-v', `${file}:/ca.pem:ro`, '-e', `${tls?.variable}=${password}`, '--entrypoint', program];
      return await docker('run', '--rm', '--network', network, ...given, await ensureDatabaseImage(type), ...args);
    } finally {
      await rm(folder, { recursive: true });
    }
  };
  const trust = (host: string, port: number): Promise<string> => inEnvironment(tls?.trusting(host, port) ?? []);
  if (tls !== undefined)
    it('proves its name to clients that know the authority of its environment, and takes none without TLS where that is required', async () => {
      const host = String(database['internal_id']);
      const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
      const address = await docker('inspect', '--format', format, await container());
      expect(await trust(host, engine.port)).toMatch(/TLSv1\.[23]/);
      await expect(trust(address, engine.port)).rejects.toThrow(/certificate|verif|match/i);
      expect(await inEnvironment(tls.plain(host))).toBe('1');

      // from here on: all that follows is done with it
      await town.client.request('PUT', base, { require_tls: true });
      database = await is('running');
      expect(await trust(host, engine.port)).toMatch(/TLSv1\.[23]/);
      await expect(inEnvironment(tls.plain(host))).rejects.toThrow(/no encryption|insecure transport/);
      expect(await rows()).toBe(1);
    });

  it('has another password of any characters once it was rotated, also when it is killed meanwhile, and not the former one', async () => {
    const own = async () => (await town.client.request('GET', `${base}/credentials`)) as { password: string };
    const second = `${password.slice(40)}${password.slice(0, 40)}`;
    for (const [next, former] of [
      [second, password],
      [password, second],
    ] as const) {
      const asked = town.client.request('POST', `${base}/rotate-password`, { password: next });
      await docker('kill', await container()).catch(() => undefined); // it may have ended by itself
      expect(await asked).toMatchObject({ applications: [{ name: expect.anything() }] });
      database = await is('running');
      expect(await own()).toMatchObject({ password: next, password_pending: false });
      for (const user of users) expect([await logsIn(user, next), await logsIn(user, former)]).toEqual([true, false]);
      expect(await rows()).toBe(1);
    }
  });

  /** Waits until its pooler answers queries. */
  const isPooled = (): Promise<unknown> =>
    town.until(
      'it is pooled',
      async () => {
        const { conditions } = await town.client.object('GET', base);
        return conditions?.find((one) => one.type === 'Pooled')?.status === 'true';
      },
      patientMs,
    );
  /** What a client in its environment is told that connects by its pooler. */
  const throughPooler = async (statement: string, as: { user?: string; password?: string } = {}): Promise<string> => {
    const { pooled_connection_string: text } = Pooled.parse(await town.client.request('GET', `${base}/credentials`));
    const url = new URL(text);
    if (as.user !== undefined) url.username = as.user;
    if (as.password !== undefined) url.password = encodeURIComponent(as.password);
    const network = environmentNetwork(String(database['environment_id']));
    const image = await ensureDatabaseImage(type);
    return docker('run', '--rm', '--network', network, '--entrypoint', 'psql', image, url.href, '-XqtAc', statement);
  };

  if (engine.pooler !== undefined)
    it('lends its connections to clients by its pooler, also to other users, through a crash and with another password', async () => {
      const before = await container();
      database = await town.client.object('PUT', base, { connection_pooling: true });
      await isPooled();
      expect(await container()).toBe(before);
      expect(await throughPooler('SELECT count(*) FROM notes')).toBe('1');
      expect(await trust(`${String(database['internal_id'])}-pooler`, 6432)).toMatch(/TLSv1\.[23]/);
      const without = `host=${String(database['internal_id'])}-pooler port=6432 user=app dbname=app sslmode=disable`;
      await expect(inEnvironment(['psql', without, '-c', 'SELECT 1'])).rejects.toThrow(/SSL required/);

      await client(['-c', "CREATE ROLE clerk LOGIN PASSWORD 'of the clerk'"]);
      const clerk = { user: 'clerk', password: 'of the clerk' };
      expect(await throughPooler('SELECT current_user', clerk)).toBe('clerk');
      await expect(throughPooler('SELECT 1', { ...clerk, password: 'of nobody' })).rejects.toThrow('authentication');

      await docker('kill', before);
      await town.until('it is reached again', async () => (await throughPooler('SELECT count(*) FROM notes')) === '1');

      await town.client.request('POST', `${base}/rotate-password`, { password: `${password}, again` });
      database = await is('running');
      await isPooled();
      expect(await throughPooler('SELECT count(*) FROM notes')).toBe('1');
      await expect(throughPooler('SELECT 1', { password })).rejects.toThrow('authentication');
      await town.client.request('POST', `${base}/rotate-password`, { password });
      database = await is('running');
    });

  it('keeps its data when it is restarted, killed, and removed by hand', async () => {
    await verb('restart');
    await is('running');
    expect(await rows()).toBe(1);
    await client(write);
    const killed = await container();
    // redis has what was written more than a second ago on its disk
    if (type === 'redis') await client(['WAITAOF', '1', '0', '5000']);
    await docker('kill', killed);
    await town.until('it answers again', async () => (await rows()) === 2, patientMs);
    await docker('rm', '--force', await container());
    await town.until('it answers again', async () => (await rows()) === 2, patientMs);
    expect(await container()).not.toBe(killed);
  });

  it('is stopped by its own end, started with its data, and given another limit', async () => {
    const before = await container();
    await verb('stop');
    await is('stopped');
    expect(await containers()).toEqual([]);
    const logs = JSON.stringify(await town.client.request('GET', `${base}/logs`));
    expect(logs).toMatch(/database system is shut down|Shutdown complete|bye bye/);
    await verb('start');
    await is('running');
    expect(await rows()).toBe(2);
    await town.client.request('PUT', base, { memory_limit: '512m' });
    await is('running');
    expect(await rows()).toBe(2);
    const limit = await docker('inspect', '--format', '{{.HostConfig.Memory}}', await container());
    expect(Number(limit)).toBe(512 * 1024 ** 2);
    expect(await container()).not.toBe(before);
  });

  it('runs with each parameter that its engine takes', async () => {
    const { known = {} } = engine.settings ?? {};
    expect(Object.keys(parameters).toSorted()).toEqual(Object.keys(known).toSorted());
    await town.client.request('PUT', base, { parameters });
    database = await is('running');
    expect(database['parameters']).toEqual(parameters);
    const answers = async () => Promise.all(asked.map(async ([question]) => (await client(question)).trim()));
    for (const [index, answer] of (await answers()).entries()) expect(answer).toMatch(asked[index]?.[1] ?? /^$/);
    expect(await rows()).toBe(2);
  });

  it('says what it uses', async () => {
    const metrics = await town.client.request('GET', `${base}/metrics`);
    expect(metrics).toMatchObject({ connections: expect.any(Number), max_connections: expect.any(Number) });
    const storage = await town.client.request('GET', `${base}/storage`);
    expect(storage).toMatchObject({ used_bytes: expect.any(Number), volume_bytes: expect.any(Number) });
  });

  it('goes to a bucket while it serves, and comes back in place and as a database of its own', async () => {
    const { client: s3, keys } = { client: gateway.client(), keys: gateway.keys };
    await s3.send(new CreateBucketCommand({ Bucket: type }));
    await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
    await town.client.object('POST', '/api/v1/settings/backup-destinations', {
      name: `bucket-${type}`,
      provider: 'custom',
      endpoint: gateway.endpoint,
      bucket: type,
      access_key: keys.accessKey,
      secret_key: keys.secretKey,
    });
    backup = await ended(await town.client.object('POST', `${base}/backups`, {}), 'backups', 'completed');
    const listed = await s3.send(new ListObjectsV2Command({ Bucket: type }));
    expect(listed.Contents?.find(({ Key }) => Key === backup['object_key'])?.Size).toBe(backup['size_bytes']);
    await client(write);
    expect(await rows()).toBe(3);

    await restored({ backup_id: backup.id });
    expect(await rows()).toBe(2);
    const made = await town.client.object('POST', `/api/v1/backups/database/${backup.id}/restore`, {
      new_name: 'copy',
    });
    const restore = await ended(made, 'restores', 'completed');
    const copy = await town.client.object('GET', `/api/v1/databases/${String(restore['database_id'])}`);
    expect(copy).toMatchObject({ name: 'copy', status: 'running' });
    const own = await containerOf('engine', copy.id);
    expect(Number((await docker('exec', own, ...engine.client, ...count)).trim())).toBe(2);
    await town.client.request('DELETE', `/api/v1/databases/${copy.id}?wait=60`, undefined);
    expect(await rows()).toBe(2);
  });

  if (dumping !== undefined)
    it('takes a dump that was made elsewhere, whose roles it does not have, and none that starts a program', async () => {
      const plain = await docker('exec', await container(), ...dumping);
      const folder = await mkdtemp(join(tmpdir(), 'setpoint-dump-'));
      const file = join(folder, 'notes.sql.gz');
      const load = async (content: string): Promise<ApiObject> => {
        await writeFile(file, gzipSync(content));
        return town.client.upload(`${base}/import`, file);
      };
      try {
        await client(write);
        expect(await rows()).toBe(3);
        const owned = plain.replace('\n--\n-- PostgreSQL database dump complete', (end) => `${ofOthers}${end}`);
        await ended(await load(owned), 'restores', 'completed');
        database = await is('running');
        expect(await rows()).toBe(2);

        const started = plain.replace(
          '\n--\n-- PostgreSQL database dump complete',
          (end) => `\n\\! touch /tmp/started\n${end}`,
        );
        const refused = await load(started);
        const after = await town.until('the import has failed', async () => {
          const now = await town.client.object('GET', `/api/v1/restores/${refused.id}`);
          return now.status === 'failed' && now;
        });
        expect(after['error']).toMatchObject({ message: expect.stringContaining('a command of psql') });
        // until the instance that read the dump is gone, it may be the one that is asked
        await town.until('the database has what it had', async () => (await rows()) === 2);
      } finally {
        await rm(folder, { recursive: true });
      }
    });

  if (tooMuch !== undefined)
    it('says what to do about parameters that it does not start with, and returns without them', async () => {
      await town.client.request('PUT', base, { parameters: tooMuch, memory_limit: null });
      const now = await is('error');
      const ready = now.conditions?.find((one) => one.type === 'Ready');
      expect(ready).toMatchObject({ reason: 'CrashLoop', message: expect.stringContaining('take it back') });
      await town.client.request('PUT', base, { parameters: { ...parameters, ...tooMuch, ...parameters } });
      database = await is('running');
      expect(await rows()).toBe(2);
    });

  it('is restored for trial from it beside what serves, and nothing of that is left', async () => {
    const volumes = () => docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`);
    const [before, served] = [await volumes(), await container()];
    const drill = await town.client.object('POST', `/api/v1/backups/${backup.id}/verify`);
    await ended(drill, 'restores', 'completed');
    await town.until('what it restored is gone', async () => (await volumes()) === before, patientMs);
    expect(await container()).toBe(served);
    const proven = { status: 'proven', at: expect.any(String), restore_id: drill.id, error: null };
    const now = await town.client.object('GET', `/api/v1/backups/${backup.id}`);
    expect([now['proven_at'], now['verification']]).toEqual([expect.any(String), proven]);
  });

  it('has its usual parameters again when they are taken back', async () => {
    await town.client.request('PUT', base, { parameters: null });
    database = await is('running');
    for (const [question, answer] of asked) expect((await client(question)).trim()).not.toMatch(answer);
    expect(await rows()).toBe(2);
  });

  it('does not begin on an empty volume when its own was removed', async () => {
    await verb('stop');
    await is('stopped');
    const volume = `sp-vol-${String(database['data_volume_id'])}`;
    await docker('volume', 'rm', volume);
    await verb('start');
    const now = await is('error');
    expect(now.conditions?.find((one) => one.type === 'Ready')).toMatchObject({ reason: 'DataLost' });
    expect(await container()).toBe('');
    expect(await docker('volume', 'ls', '--quiet', '--filter', `name=${volume}`)).toBe('');
  });

  it('comes back from its backup when its volume is lost', async () => {
    await restored({ backup_id: backup.id });
    expect(await rows()).toBe(2);
  });

  if (engine.pooler !== undefined)
    it('is reached by its pooler on each volume that it serves from, and goes on without it', async () => {
      await isPooled();
      expect(await throughPooler('SELECT count(*) FROM notes')).toBe('2');
      const before = await container();
      await town.client.object('PUT', base, { connection_pooling: false });
      await town.until('its pooler is gone', async () => (await containerOf('pooler')) === '');
      expect(await container()).toBe(before);
      const credentials = await town.client.request('GET', `${base}/credentials`);
      expect(credentials).toMatchObject({ pooled_host: null, pooled_connection_string: null });
      await town.client.object('PUT', base, { connection_pooling: true });
      await isPooled();
    });

  it('has no backup any more once that was deleted', async () => {
    await town.client.request('DELETE', `/api/v1/backups/${backup.id}?wait=60`, undefined);
    const left = await gateway.client().send(new ListObjectsV2Command({ Bucket: type }));
    expect(left.Contents ?? []).toEqual([]);
  });

  it('leaves nothing when it is deleted', async () => {
    const refused = town.client.request('DELETE', base, undefined);
    await expect(refused).rejects.toThrow('Variables of');
    for (const app of await town.client.list('/api/v1/applications')) {
      await town.client.request('DELETE', `/api/v1/applications/${app.id}?wait=60`, undefined);
    }
    await town.client.request('DELETE', `${base}?wait=60`, undefined);
    await expect(town.client.request('GET', base)).rejects.toThrow('not found');
    expect(await docker('ps', '--all', '--quiet', '--filter', `label=setpoint.workload=${database.id}`)).toBe('');
    const volumes = await docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`);
    expect(volumes).toBe('');
  });
}
