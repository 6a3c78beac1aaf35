import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';

const rounds = Number(process.env['FAULT_ROUNDS'] ?? 10);
const patientMs = 300_000;
const megabytes = 64;
const bucket = 'faults';

let town: Installation;
let gateway: S3Gateway;
let database: ApiObject;

const Ended = z.object({ code: z.string() }).nullable();

beforeAll(async () => {
  const image = await ensureDatabaseImage('postgres');
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
  town = await Installation.start({ store: 'sqlite', serverFlags: ['--engine-images', `postgres=${image}`] });
  await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await town.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'faults',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket,
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
  });
  database = await town.client.object('POST', '/api/v1/databases', {
    project_id: town.project.id,
    server_id: town.server.id,
    name: 'orders',
    type: 'postgres',
  });
  await running(database.id);
  // bytes that do not get smaller, so that a backup takes its time
  await sql(
    database.id,
    `CREATE TABLE blobs AS SELECT n, gen_random_bytes(1024) AS b FROM generate_series(1, ${megabytes * 1024}) n`,
  );
}, 300_000);
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

async function running(id: string): Promise<void> {
  await town.until(
    'the database is running',
    async () => {
      const it = await town.client.object('GET', `/api/v1/databases/${id}`).catch(() => undefined);
      const isReady = it?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'true');
      return it?.status === 'running' && isReady === true && it.observed_generation === it.generation;
    },
    patientMs,
  );
}

async function sql(id: string, text: string): Promise<string> {
  const [container = ''] = await instancesOf(id);
  const command = ['psql', '-XqtA', '-v', 'ON_ERROR_STOP=1'];
  return docker('exec', container, ...command, '-c', 'CREATE EXTENSION IF NOT EXISTS pgcrypto', '-c', text);
}

const digest = (id: string): Promise<string> =>
  sql(id, "SELECT count(*), md5(string_agg(md5(b), '' ORDER BY n)) FROM blobs");

async function ended(kind: 'backups' | 'restores', id: string): Promise<ApiObject> {
  let now: ApiObject | undefined;
  await town.until(
    `${kind} ${id} has ended`,
    async () => {
      now = await town.client.object('GET', `/api/v1/${kind}/${id}`).catch(() => undefined);
      return now?.status === 'completed' || now?.status === 'failed';
    },
    patientMs,
  );
  return now!;
}

/** What happens in the middle, each undone by itself or by the product. */
const faults: Record<string, () => Promise<void>> = {
  'the agent is killed': async () => {
    await town.agent.kill();
    town.agent.start();
  },
  'the control plane is killed': async () => {
    const { program } = town.replicas[0]!;
    await program.kill();
    program.start();
    await town.until(
      'the API answers',
      async () => (await town.client.list('/api/v1/projects').catch(() => undefined)) !== undefined,
      60_000,
    );
  },
  'the bucket does not answer for a while': async () => {
    await gateway.freeze();
    await delay(randomInt(1000, 20_000));
    await gateway.thaw();
  },
  'the database is killed': async () => {
    const [container = ''] = await instancesOf(database.id);
    if (container !== '') await docker('kill', container).catch(() => '');
  },
  'nothing happens': async () => undefined,
};

it(
  'what is completed can be restored, whatever happened in the middle, and nothing else is left',
  async () => {
    const tally: Record<string, number> = {};
    const wanted = await digest(database.id);
    for (let round = 0; round < rounds; round += 1) {
      await running(database.id);
      const names = Object.keys(faults);
      const during = names[round % names.length]!;
      const made = await town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {});
      await delay(randomInt(0, 4000));
      await faults[during]!();
      const backup = await ended('backups', made.id);
      const note = (what: string): void => void (tally[what] = (tally[what] ?? 0) + 1);
      note(`backup, ${during}: ${Ended.parse(backup['error'])?.code ?? 'completed'}`);
      if (backup.status === 'completed') {
        await running(database.id);
        const meanwhile = names[randomInt(names.length)]!;
        const name = `copy-${round}`;
        const asked = { new_name: name };
        const restoring = await town.client.object('POST', `/api/v1/backups/database/${backup.id}/restore`, asked);
        await delay(randomInt(0, 8000));
        await faults[meanwhile]!();
        const restore = await ended('restores', restoring.id);
        const copy = String(restore['database_id']);
        note(`restore, ${meanwhile}: ${Ended.parse(restore['error'])?.code ?? 'completed'}`);
        if (restore.status === 'completed') {
          await running(copy);
          expect(await digest(copy)).toBe(wanted);
        }
        await town.client.request('DELETE', `/api/v1/databases/${copy}?wait=60`, undefined);
      }
      await town.client.request('DELETE', `/api/v1/backups/${backup.id}?wait=60`, undefined);
    }
    await running(database.id);
    expect(await digest(database.id)).toBe(wanted);
    const s3 = gateway.client();
    const isEmpty = async (): Promise<boolean> => {
      const objects = await s3.send(new ListObjectsV2Command({ Bucket: bucket }));
      const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
      return (objects.Contents ?? []).length + (uploads.Uploads ?? []).length === 0;
    };
    await town.until('the bucket is empty', isEmpty, patientMs);
    const volumes = await docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`);
    expect(volumes.split('\n')).toHaveLength(1);
    console.log(tally);
  },
  rounds * 180_000,
);
