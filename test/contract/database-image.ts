import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdCompressSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { ensureDatabaseImage, type DatabaseEngine } from '../harness/database-images.ts';
import { docker } from '../harness/engine.ts';
import { until } from '../harness/until.ts';

const execute = promisify(execFile);
const makeMs = 30 * 60_000;
const readyMs = 90_000;
const testMs = 3 * readyMs;
/** Seconds that a server has to end by itself. */
const grace = 60;

/** What a user of a server is known by, and the database that is made for it. */
interface Account {
  user: string;
  password: string;
  database: string;
}

const printable = Array.from({ length: 0x7f - 0x20 }, (_, index) => String.fromCharCode(0x20 + index)).join('');
const account: Account = { user: `o'b "c\\d\` %_=$e`, password: printable, database: ` my 'd"\\b\` %_=$(x)` };

/** How the official image of an engine is used. */
interface Example {
  volume: string;
  ports: readonly string[];
  stopSignal?: string;
  /** The user that its server runs as. */
  runsAs: string;
  tools: readonly string[];
  /** A name for its user where the engine refuses quotes and backslashes there. */
  user?: string;
  /** Variables that make the account. */
  environment?: (account: Account) => Record<string, string>;
  /** Arguments that make it, where no variable does. */
  argv?: (account: Account) => string[];
  /** What a server without a password for a new volume says before it ends; absent: it starts. */
  refusal?: RegExp;
  /** Writes something, and asks for it. */
  write: string;
  read: string;
  /** File of the init folder → content. What ends in `.sh` also makes `/tmp/made`. */
  init?: Readonly<Record<string, string | Buffer>>;
  readInit?: string;
  /** A client of the image that logs in at a host. */
  client: (account: Account, host: string, statement: string) => Client;
}

interface Client {
  environment: Record<string, string>;
  argv: string[];
}

const mysqlExample = (prefix: string, client: string, dump: string): Example => ({
  volume: '/var/lib/mysql',
  ports: ['3306/tcp'],
  runsAs: 'mysql',
  tools: [client, dump, 'zstd'],
  environment: ({ user, password, database }) => ({
    [`${prefix}_ROOT_PASSWORD`]: `root ${password}`,
    [`${prefix}_USER`]: user,
    [`${prefix}_PASSWORD`]: password,
    [`${prefix}_DATABASE`]: database,
  }),
  refusal: new RegExp(`${prefix}_ROOT_PASSWORD`),
  write: 'CREATE TABLE kept (it INT); INSERT INTO kept VALUES (7)',
  read: 'SELECT it FROM kept',
  init: {
    '1.sql': 'CREATE TABLE made (it INT);',
    '2.sql.zst': zstdCompressSync('INSERT INTO made VALUES (1), (2);'),
    '3.sh': 'echo sourced >/tmp/made',
  },
  readInit: 'SELECT count(*) FROM made',
  client: ({ user, password, database }, host, statement) => ({
    environment: { MYSQL_PWD: password },
    argv: [client, '--protocol=tcp', `--host=${host}`, `--user=${user}`, `--database=${database}`, '-NBe', statement],
  }),
});

const examples: Readonly<Record<DatabaseEngine, Example>> = {
  postgres: {
    volume: '/var/lib/postgresql/data',
    ports: ['5432/tcp'],
    stopSignal: 'SIGINT',
    user: 'o b %_=;e',
    runsAs: 'postgres',
    tools: ['psql', 'pg_dump', 'pg_restore', 'pg_basebackup', 'pg_receivewal', 'zstd'],
    environment: ({ user, password, database }) => ({
      POSTGRES_USER: user,
      POSTGRES_PASSWORD: password,
      POSTGRES_DB: database,
    }),
    refusal: /POSTGRES_PASSWORD/,
    write: 'CREATE TABLE kept (it int); INSERT INTO kept VALUES (7)',
    read: 'SELECT it FROM kept',
    init: {
      '1.sql': 'CREATE TABLE made (it int);',
      '2.sql.zst': zstdCompressSync('INSERT INTO made VALUES (1), (2);'),
      '3.sh': 'echo sourced >/tmp/made',
    },
    readInit: 'SELECT count(*) FROM made',
    client: ({ user, password, database }, host, statement) => ({
      environment: { PGUSER: user, PGPASSWORD: password, PGDATABASE: database, PGHOST: host },
      argv: ['psql', '--no-psqlrc', '-Atqc', statement],
    }),
  },
  mariadb: mysqlExample('MARIADB', 'mariadb', 'mariadb-dump'),
  mysql: mysqlExample('MYSQL', 'mysql', 'mysqldump'),
  redis: {
    volume: '/data',
    ports: ['6379/tcp'],
    runsAs: 'redis',
    tools: ['redis-cli', 'zstd'],
    argv: ({ password }) => ['--requirepass', password, '--appendonly', 'yes'],
    write: 'SET kept 7',
    read: 'GET kept',
    client: ({ password }, host, statement) => ({
      environment: { REDISCLI_AUTH: password },
      argv: ['redis-cli', '-e', '-h', host, ...statement.split(' ')],
    }),
  },
};

/** A container of the image with a volume of its own for the data, and how to ask it. */
interface Started {
  id: string;
  /** What a client prints that logs in over the network. @throws Error when it cannot, or when the server refuses. */
  ask: (account: Account, statement: string) => Promise<string>;
  /** Resolves with the answer once the server gives one. */
  ready: (account: Account, statement: string) => Promise<string>;
}

/**
 * That the image of an engine keeps the contract of the official one. All of it holds for names with quotes, spaces and
 * backslashes, and for a password of every printable character.
 */
export function testDatabaseImage(engine: DatabaseEngine): void {
  const example = examples[engine];
  const { environment = () => ({}), argv = () => [] } = example;
  const owner = { ...account, user: example.user ?? account.user };

  describe(`the image of ${engine}`, { timeout: testMs }, () => {
    let image: string;
    beforeAll(async () => {
      image = await ensureDatabaseImage(engine);
    }, makeMs);

    async function start(things: AsyncDisposableStack, flags: readonly string[], rest: readonly string[] = []) {
      const id = await docker('run', '--detach', ...flags, image, ...rest);
      things.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
      const host = await docker('inspect', '--format', '{{.NetworkSettings.IPAddress}}', id);
      const ask: Started['ask'] = (account, statement) => {
        const client = example.client(account, host, statement);
        return docker('exec', ...variables(client.environment), id, ...client.argv);
      };
      const started: Started = {
        id,
        ask,
        ready: async (account, statement) => {
          const explain = (): Promise<string> => logs(id);
          const answer = await until(
            `${engine} answers`,
            async () => {
              const isRunning = await docker('inspect', '--format', '{{.State.Running}}', id);
              return isRunning === 'true' ? [await ask(account, statement)] : 'ended';
            },
            { timeoutMs: readyMs, explain },
          );
          if (answer === 'ended') throw new Error(`${engine} ended:\n${await logs(id)}`);
          return answer.join('');
        },
      };
      return started;
    }

    test('has the volume, the ports, the stop signal and the tools of the official one', async () => {
      const text = await docker('image', 'inspect', '--format', '{{json .Config}}', image);
      const config = JSON.parse(text) as Record<string, unknown>;
      expect(Object.keys(config['Volumes'] as object)).toEqual([example.volume]);
      expect(Object.keys(config['ExposedPorts'] as object)).toEqual(expect.arrayContaining([...example.ports]));
      expect(config['StopSignal']).toBe(example.stopSignal);
      expect(config['Entrypoint']).toEqual(['docker-entrypoint.sh']);
      const found = await docker('run', '--rm', image, 'bash', '-c', 'command -v "$@"', 'bash', ...example.tools);
      expect(found.split('\n')).toHaveLength(example.tools.length);
    });

    const { refusal } = example;
    if (refusal !== undefined)
      test('does not start on an empty volume without a password', async () => {
        await using things = new AsyncDisposableStack();
        const { id } = await start(things, []);
        expect(await docker('wait', id)).toBe('1');
        expect(await logs(id)).toMatch(refusal);
      });

    test('keeps its data over a new container with the same volume, and ends gracefully', async () => {
      await using things = new AsyncDisposableStack();
      const volume = `setpoint-test-${randomUUID()}`;
      await docker('volume', 'create', volume);
      things.defer(async () => void (await docker('volume', 'rm', volume)));
      const data = ['--volume', `${volume}:${example.volume}`];
      const init = await initFolder(things, example.init ?? {});
      const first = await start(things, [...data, ...init, ...variables(environment(owner))], argv(owner));
      await first.ready(owner, example.write);
      const names = await docker('exec', first.id, 'stat', '--format', '%U', '/proc/1', example.volume);
      expect(names.split('\n')).toEqual([example.runsAs, example.runsAs]);
      await expect(first.ask({ ...owner, password: printable.slice(1) }, example.read)).rejects.toThrow();
      if (example.readInit !== undefined) {
        expect(await first.ask(owner, example.readInit)).toBe('2');
        expect(await docker('exec', first.id, 'cat', '/tmp/made')).toBe('sourced');
      }
      await stop(first.id);

      const second = await start(things, data, argv(owner));
      expect(await second.ready(owner, example.read)).toBe('7');
      await stop(second.id);
    });

    if (example.environment !== undefined)
      test('takes user, password and database from files', async () => {
        await using things = new AsyncDisposableStack();
        const secrets = await folder(things, environment(owner));
        const files = Object.keys(environment(owner)).map((name) => [`${name}_FILE`, `/run/secrets/${name}`]);
        const flags = ['--volume', `${secrets}:/run/secrets:ro`, ...variables(Object.fromEntries(files))];
        const { ready } = await start(things, flags);
        await ready(owner, example.write);
      });

    async function stop(id: string): Promise<void> {
      await docker('stop', '--time', String(grace), id);
      expect(await docker('inspect', '--format', '{{.State.ExitCode}}', id), await logs(id)).toBe('0');
    }
  });
}

const variables = (of: Readonly<Record<string, string>>): string[] =>
  Object.entries(of).flatMap(([name, value]) => ['--env', `${name}=${value}`]);

/** The flags by which a container has these files in its folder for new databases. */
async function initFolder(things: AsyncDisposableStack, files: NonNullable<Example['init']>): Promise<string[]> {
  if (Object.keys(files).length === 0) return [];
  return ['--volume', `${await folder(things, files)}:/docker-entrypoint-initdb.d:ro`];
}

/** A folder of these files, which any user may read. */
async function folder(things: AsyncDisposableStack, files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'setpoint-database-'));
  things.defer(() => rm(path, { recursive: true }));
  for (const [name, content] of Object.entries(files)) await writeFile(join(path, name), content);
  await chmod(path, 0o755);
  return path;
}

/** Both outputs of a container. */
async function logs(id: string): Promise<string> {
  const { stdout, stderr } = await execute('docker', ['logs', id], { timeout: 60_000 });
  return stdout + stderr;
}
