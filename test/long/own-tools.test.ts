import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, GetObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { engines } from '../../databases/engines.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import type { DatabaseEngine } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';

/** What a bucket has is brought back by the commands of the docs, and nothing of Setpoint. */
const execute = promisify(execFile);
const patientMs = 180_000;
const bucket = 'backups';
/** Of the servers that are made by hand. */
const own = 'of-another-server';
const password = 'of-the-time-of-the-backup';

interface Way {
  /** Arguments of the client of the engine that make content, and that sum it up. */
  fill: readonly string[];
  sum: readonly string[];
  /** Of the container of the new server, and of a client in it after the restore. */
  env: readonly string[];
  isUp: readonly string[];
  ask: readonly string[];
}

const ofMysql = (client: string): Way => ({
  fill: [
    'app',
    '-e',
    "CREATE TABLE notes (n int PRIMARY KEY, note text); INSERT INTO notes WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT n, CONCAT('note; ''', n) FROM s",
  ],
  sum: ['app', '-BNe', 'SELECT count(*), sum(crc32(note)) FROM notes'],
  env: ['MYSQL_ROOT_PASSWORD', 'MARIADB_ROOT_PASSWORD'],
  isUp: [client, '-h127.0.0.1', '-uroot', `-p${own}`, '-e', 'SELECT 1'],
  ask: [client, '-h127.0.0.1', '-uapp', `-p${password}`],
});
const ways: Readonly<Record<DatabaseEngine, Way>> = {
  postgres: {
    fill: ['-c', "CREATE TABLE notes AS SELECT n, 'note; ''' || n AS note FROM generate_series(1, 5000) n"],
    sum: ['-XqtAc', 'SELECT count(*), sum(hashtext(note)) FROM notes'],
    env: ['POSTGRES_PASSWORD'],
    isUp: ['psql', '-h127.0.0.1', '-Upostgres', '-c', 'SELECT 1'],
    ask: ['psql', '-h127.0.0.1', '-Uapp', 'app'],
  },
  mariadb: ofMysql('mariadb'),
  mysql: ofMysql('mysql'),
  redis: {
    fill: ['EVAL', "for i = 1, 900 do redis.call('SET', 'n' .. i, i) end", '0'],
    sum: [
      'EVAL',
      "local all = '' for i = 1, 900 do all = all .. redis.call('GET', 'n' .. i) end return redis.sha1hex(all)",
      '0',
    ],
    env: [],
    isUp: ['redis-cli', 'PING'],
    ask: ['redis-cli'],
  },
};

let gateway: S3Gateway;
let town: Installation;

beforeAll(async () => {
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
});
afterAll(() => gateway[Symbol.asyncDispose]());

/** The command of the docs that begins with these words. */
async function documented(words: string): Promise<string> {
  const docs = await readFile(new URL('../../docs/backups.md', import.meta.url), 'utf8');
  const [, block = ''] = /## Without Setpoint[^]*?```sh\n([^]*?)```/.exec(docs) ?? [];
  const line = block.split('\n').find((one) => one.startsWith(words));
  if (line === undefined) throw new Error(`docs/backups.md has no command that begins with ${words}`);
  return line.replace(/\s+#.*$/, '');
}

async function install(serverFlags: readonly string[]): Promise<Installation> {
  const made = await Installation.start({ store: 'sqlite', serverFlags });
  await made.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await made.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'bucket',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket,
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
  });
  return made;
}

/** Waits for the end of a backup, and fetches what the bucket has of it as any client of S3 does. */
async function fetched(made: ApiObject): Promise<Uint8Array> {
  const now = await town.until(
    'the backup has ended',
    async () => {
      const it = await town.client.object('GET', `/api/v1/backups/${made.id}`);
      return it.status !== 'pending' && it.status !== 'running' && it.status !== 'verifying' && it;
    },
    patientMs,
  );
  expect({ status: now.status, error: now['error'] }).toEqual({ status: 'completed', error: null });
  const key = String(now['object_key']);
  const read = async (Key: string): Promise<Uint8Array> => {
    const { Body } = await gateway.client().send(new GetObjectCommand({ Bucket: bucket, Key }));
    if (Body === undefined) throw new Error(`${Key} has no content`);
    return Body.transformToByteArray();
  };
  const object = await read(key);
  const manifest = z
    .object({ checksum_sha256: z.string() })
    .parse(JSON.parse(Buffer.from(await read(`${dirname(key)}/manifest.json`)).toString()));
  expect(manifest.checksum_sha256).toBe(createHash('sha256').update(object).digest('hex'));
  return object;
}

it.each(['postgres', 'mariadb', 'redis', 'mysql'] as const)(
  'the object of a database of %s gives a server of its own what it held',
  async (type) => {
    const image = await ensureDatabaseImage(type);
    const { fill, sum, env, isUp, ask } = ways[type];
    await using made = await install(['--engine-images', `${type}=${image}`]);
    town = made;
    const database = await town.client.object('POST', '/api/v1/databases?wait=120', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'orders',
      type,
      password,
    });
    const [source = ''] = await instancesOf(database.id);
    await docker('exec', source, ...engines[type].client, ...fill);
    const before = await docker('exec', source, ...engines[type].client, ...sum);
    const file = join(town.dir, 'dump.zst');
    await writeFile(
      file,
      await fetched(await town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {})),
    );

    await using things = new AsyncDisposableStack();
    const start = async (id: string): Promise<void> => {
      await docker('start', id);
      await until(`${type} answers`, async () => docker('exec', id, ...isUp), { timeoutMs: patientMs });
    };
    const create = async (...command: string[]): Promise<string> => {
      const variables = env.flatMap((name) => ['--env', `${name}=${own}`]);
      const id = await docker('create', ...variables, image, ...command);
      things.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
      return id;
    };
    /** Runs commands of the docs in a shell, beside the server, and answers with all that they print. */
    const run = (id: string, ...lines: string[]): Promise<string> => {
      const user = type === 'postgres' ? ['--user', 'postgres'] : [];
      return docker('exec', ...user, '--workdir', '/tmp', id, 'sh', '-ec', `{ ${lines.join('\n')}\n} 2>&1`);
    };

    let server = await create();
    await start(server);
    await docker('cp', file, `${server}:/tmp/dump.zst`);
    await run(server, await documented('sha256sum'), await documented('zstd'));
    if (type === 'redis') {
      const dump = join(town.dir, 'dump.rdb');
      await docker('cp', `${server}:/tmp/dump`, dump);
      server = await create('--appendonly', 'no');
      await docker('cp', dump, `${server}:/data/dump.rdb`);
      await start(server);
      await docker('exec', server, ...ask, 'CONFIG', 'SET', 'appendonly', 'yes');
    } else {
      const command = await documented(type === 'postgres' ? 'psql' : 'mariadb');
      const printed = await run(server, command.replace(/^mariadb/, ask[0] ?? '').replace(' -p ', ` -p${own} `));
      expect(printed).not.toMatch(/ERROR/);
      await docker('stop', server);
      await docker('start', server);
    }
    await until(`${type} answers`, async () => docker('exec', server, ...ask, ...sum), { timeoutMs: patientMs });
    expect(await docker('exec', server, ...ask, ...sum)).toBe(before);
    expect(before.length).toBeGreaterThan(10);
  },
  400_000,
);

it('the object of a volume gives a folder what it held', async () => {
  const { http } = await ensureTestImages();
  await using made = await install([]);
  town = made;
  const port = await freePort();
  const app = await town.createApplication({
    source_type: 'image',
    image_url: http,
    exposed_port: port,
    min_healthy_seconds: 1,
    env: { PORT: String(port) },
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  const volume = await town.client.object('POST', '/api/v1/volumes', {
    project_id: town.project.id,
    server_id: town.server.id,
    name: 'notes',
  });
  const bind = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
  await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
  const folder = await docker('volume', 'inspect', '--format', '{{.Mountpoint}}', `sp-vol-${volume.id}`);
  const fill = [
    'mkdir -p deep/er',
    "printf 'one\\n' > deep/note",
    'ln deep/note deep/er/linked',
    'ln -s ../note deep/er/pointing',
    'truncate -s 3M sparse',
    "printf 'end' >> sparse",
    "printf '' > 'a name; with $words'",
    'chmod 6751 deep/note',
    'chown 1234:4321 sparse',
    'touch -d 2020-02-02T02:02:02Z sparse',
  ];
  await execute('sh', ['-ec', fill.join('\n')], { cwd: folder });
  const object = await fetched(await town.client.object('POST', `/api/v1/volumes/${volume.id}/backup`, {}));

  const work = join(town.dir, 'by-hand');
  await mkdir(work);
  await writeFile(join(work, 'dump.zst'), object);
  for (const words of ['sha256sum', 'zstd', 'mkdir', 'tar'])
    await execute('sh', ['-ec', await documented(words)], { cwd: work });
  const listing = async (cwd: string): Promise<string> => {
    const shown = '%P %y %m %U:%G %s %n %T@ %l\\n';
    const files = await execute('sh', ['-ec', `find . -mindepth 1 ! -type d -printf '${shown}' | sort`], { cwd });
    const sums = await execute('sh', ['-ec', 'find . -type f -print0 | sort -z | xargs -0 sha256sum'], { cwd });
    return `${files.stdout}${sums.stdout}`;
  };
  expect(await listing(join(work, 'folder'))).toBe(await listing(folder));
  const used = await execute('du', ['--block-size=1', join(work, 'folder', 'sparse')]);
  expect(Number(used.stdout.split('\t')[0])).toBeLessThan(1024 * 1024);
}, 400_000);
