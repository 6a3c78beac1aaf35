import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { CommandLine } from '../harness/command-line.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';

/** An installation is lost with its store, its servers and their disks; what is left is a bucket. */
const patientMs = 180_000;
const Ended = z.enum(['completed', 'failed']);

let gateway: S3Gateway;
let image: string;

beforeAll(async () => {
  image = await ensureDatabaseImage('postgres');
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: 'backups' }));
});
afterAll(() => gateway[Symbol.asyncDispose]());

const install = (): Promise<Installation> =>
  Installation.start({ store: 'sqlite', serverFlags: ['--engine-images', `postgres=${image}`] });

async function destinationOf(town: Installation): Promise<void> {
  const { accessKey, secretKey } = gateway.keys;
  await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await town.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'bucket',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket: 'backups',
    access_key: accessKey,
    secret_key: secretKey,
  });
}

async function ended(town: Installation, path: string): Promise<ApiObject> {
  const isEnded = async (): Promise<ApiObject | false> => {
    const now = await town.client.object('GET', path);
    return Ended.safeParse(now.status).success && now;
  };
  const now = await town.until(`${path} has ended`, isEnded, patientMs);
  expect({ status: now.status, error: now['error'] }).toEqual({ status: 'completed', error: null });
  return now;
}

const psql = async (database: string, query: string): Promise<string> => {
  const [container = ''] = await instancesOf(database);
  return (await docker('exec', container, 'psql', '-U', 'app', '-XqtAc', query)).trim();
};

it('a database comes back in an empty installation that knows its bucket alone', async () => {
  const sum = 'SELECT count(*), sum(hashtext(n || note)) FROM notes';
  let before = '';
  {
    await using town = await install();
    await destinationOf(town);
    const place = { project_id: town.project.id, server_id: town.server.id };
    const database = await town.client.object('POST', '/api/v1/databases?wait=120', {
      ...place,
      name: 'orders',
      type: 'postgres',
    });
    await psql(database.id, "CREATE TABLE notes AS SELECT n, 'note ' || n AS note FROM generate_series(1, 5000) n");
    before = await psql(database.id, sum);
    const made = await town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {});
    await ended(town, `/api/v1/backups/${made.id}`);
  }
  const stranger = { Bucket: 'backups', Key: 'other/manifest.json', Body: '{"format":"of another product"}' };
  await gateway.client().send(new PutObjectCommand(stranger));

  await using town = await install();
  await destinationOf(town);
  await using cli = await CommandLine.open();
  const { server, token = '' } = town.client.connection;
  const run = (...argv: string[]) => cli.run(argv, '', { SETPOINT_URL: server, SETPOINT_TOKEN: token });
  const project = String(town.project.name);
  const taking = [
    'backup',
    'import',
    '--destination',
    'bucket',
    '--project',
    project,
    '--on',
    String(town.server.name),
  ];
  const taken = await run(...taking);
  expect(taken).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^backup \S+ of orders is taken up\n1 backup is new/),
  });
  expect(taken.err).toContain('other/manifest.json is left out');
  const [, id = ''] = /^backup (\S+)/.exec(taken.out) ?? [];
  await ended(town, `/api/v1/backups/${id}`);
  expect(await run(...taking)).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^0 backups are new here, 1 known/),
  });

  const restored = await run('restore', id, '--as', 'orders');
  expect(restored).toMatchObject({ code: 0, err: '' });
  const [orders] = await town.client.list('/api/v1/databases');
  expect(await psql(orders?.id ?? '', sum)).toBe(before);
});
