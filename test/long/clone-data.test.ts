import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import type { DatabaseEngine } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief } from '../harness/installation.ts';
import type { Installation } from '../harness/installation.ts';
import { databaseTown, LiveDatabase, liveEngines } from '../harness/live-database.ts';
import { freePort } from '../harness/program.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const patientMs = 180_000;
const bucket = 'clones';

/** Arguments of the client of an engine. */
interface Content {
  fill: readonly string[];
  change: readonly string[];
  sum: readonly string[];
}

const ofMysql: Content = {
  fill: [
    'app',
    '-e',
    'CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT n FROM s',
  ],
  change: ['app', '-e', 'DELETE FROM notes WHERE n > 10'],
  sum: ['app', '-BNe', 'SELECT count(*), sum(n) FROM notes'],
};
const contents: Readonly<Record<DatabaseEngine, Content>> = {
  postgres: {
    fill: ['-c', 'CREATE TABLE notes AS SELECT n FROM generate_series(1, 900) n'],
    change: ['-c', 'DELETE FROM notes WHERE n > 10'],
    sum: ['-XqtAc', 'SELECT count(*), sum(n) FROM notes'],
  },
  mariadb: ofMysql,
  mysql: ofMysql,
  redis: {
    fill: ['EVAL', "for i = 1, 900 do redis.call('RPUSH', 'notes', i) end", '0'],
    change: ['LTRIM', 'notes', '0', '9'],
    sum: ['EVAL', "return redis.sha1hex(table.concat(redis.call('LRANGE', 'notes', 0, -1), ','))", '0'],
  },
};

let town: Installation;
let gateway: S3Gateway;

beforeAll(async () => {
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
  town = await databaseTown(liveEngines);
  await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await town.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'clones',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket,
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
  });
}, 600_000);
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

/** Runs a program of Node in the one instance of an application. */
async function inside({ id }: ApiObject, script: string): Promise<string> {
  const [instance = ''] = await instancesOf(id);
  return docker('exec', instance, '/bin/node', '-e', script);
}

async function deploy({ id }: ApiObject): Promise<void> {
  await town.deployment((await town.deploy(id)).id, 'succeeded', patientMs);
}

it(
  'an environment is cloned with the data of its databases and volumes, which then change apart',
  { timeout: 900_000 },
  async () => {
    const databases: [DatabaseEngine, LiveDatabase][] = [];
    for (const type of liveEngines)
      databases.push([type, await LiveDatabase.create(town, type, { name: `db-${type}` })]);
    const { http } = await ensureTestImages();
    const port = String(await freePort());
    const app = await town.createApplication({ ...brief, source_type: 'image', image_url: http, env: { PORT: port } });
    await deploy(app);
    const place = { project_id: town.project.id, server_id: town.server.id };
    const volume = await town.client.object('POST', '/api/v1/volumes', { ...place, name: 'files' });
    const bind = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
    const write = (text: string): string => `require('node:fs').writeFileSync('/data/note', '${text}')`;
    const read = `process.stdout.write(require('node:fs').readFileSync('/data/note', 'utf8'))`;
    await inside(app, write('of the source'));
    const wanted = new Map<DatabaseEngine, string>();
    for (const [type, database] of databases) {
      await database.is('running');
      await database.ask(contents[type].fill);
      wanted.set(type, await database.ask(contents[type].sum));
    }

    const environments = `/api/v1/projects/${town.project.id}/environments`;
    const asked = { name: 'copy', include_data: true };
    const clone = await town.client.object('POST', `${environments}/${town.environment.id}/clone`, asked);
    const ready = await town.until(
      'the clone has its data',
      async () => {
        const now = await town.client.object('GET', `${environments}/${clone.id}`);
        const isReady = now.conditions?.some(({ type, status }) => type === 'Ready' && status === 'true');
        return isReady === true && now;
      },
      600_000,
    );
    expect(ready['clone_of']).toMatchObject({ complete: true, data: { total: 5, left: 0, failed: [] } });

    // what the source becomes is nothing to the copy
    for (const [type, database] of databases) await database.ask(contents[type].change);
    await inside(app, write('of later'));
    const inCopy = async (kind: string): Promise<ApiObject[]> =>
      (await town.client.list(`/api/v1/${kind}`)).filter((it) => it['environment_id'] === clone.id);
    const copies = await inCopy('databases');
    expect(copies).toHaveLength(databases.length);
    for (const [type] of databases) {
      const copy = LiveDatabase.of(
        town,
        type,
        copies.find((it) => it['name'] === `db-${type}`)!,
      );
      await copy.is('running');
      expect([type, await copy.ask(contents[type].sum)]).toEqual([type, wanted.get(type)]);
    }
    const [copiedApp] = await inCopy('applications');
    await deploy(copiedApp!);
    expect(await inside(copiedApp!, read)).toBe('of the source');
    expect(await inside(app, read)).toBe('of later');

    const { KeyCount } = await gateway.client().send(new ListObjectsV2Command({ Bucket: bucket }));
    expect(KeyCount).toBe(0);
  },
);
