import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ApiObject } from '../../cli/client.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { EngineProxy } from '../harness/engine-proxy.ts';
import { containersWith, docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';

/** Names of the faults to try, by commas; without it all. */
const only = process.env['FAULTS']?.split(',');
/** When a fault happens, as parts of the time that the same work takes alone. */
const instants = [0.1, 0.5, 0.9];
const patientMs = 300_000;
const megabytes = 64;
const bucket = 'faults';

let town: Installation;
let gateway: S3Gateway;
let engine: EngineProxy;
let folder: string;
let database: ApiObject;

const Ended = z.object({ code: z.string() }).nullable();

beforeAll(async () => {
  const image = await ensureDatabaseImage('postgres');
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
  folder = await mkdtemp(join(tmpdir(), 'setpoint-faults-'));
  engine = new EngineProxy(join(folder, 'docker.sock'));
  await engine.open();
  town = await Installation.start({
    store: 'sqlite',
    serverFlags: ['--engine-images', `postgres=${image}`],
    agentFlags: ['--docker-socket', engine.path],
  });
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
  await engine[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
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
  agent: async () => {
    await town.agent.kill();
    town.agent.start();
  },
  'control plane': async () => {
    const { program } = town.replicas[0]!;
    await program.kill();
    program.start();
    await town.until(
      'the API answers',
      async () => (await town.client.list('/api/v1/projects').catch(() => undefined)) !== undefined,
      60_000,
    );
  },
  // The containers and their records go on, as with `live-restore`; other tests use the same engine.
  engine: async () => {
    await engine.close();
    await delay(5000);
    await engine.open();
  },
  gateway: () => gateway.kill(),
  'slow gateway': async () => {
    await gateway.freeze();
    await delay(15_000);
    await gateway.thaw();
  },
  database: async () => {
    const [container = ''] = await instancesOf(database.id);
    if (container !== '') await docker('kill', container).catch(() => ''); // it may be between two starts
  },
};

const backUp = (): Promise<ApiObject> => town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {});
const restore = (backup: string, name: string): Promise<ApiObject> =>
  town.client.object('POST', `/api/v1/backups/database/${backup}/restore`, { new_name: name });
const remove = async (path: string): Promise<void> =>
  void (await town.client.request('DELETE', `/api/v1/${path}?wait=60`, undefined));
/** How it ended: `completed`, or the code of its error. */
const outcome = (ended: ApiObject): string => Ended.parse(ended['error'])?.code ?? 'completed';

/** Restores it into another database, and compares what is there with what was. */
async function proveCopy(restoring: ApiObject, wanted: string): Promise<string> {
  const it = await ended('restores', restoring.id);
  const copy = String(it['database_id']);
  if (it.status === 'completed') {
    await running(copy);
    expect(await digest(copy)).toBe(wanted);
  }
  await remove(`databases/${copy}`);
  return outcome(it);
}

it(
  'what is completed can be restored, whatever is killed at three instants, and nothing else is left',
  async () => {
    const wanted = await digest(database.id);
    const timed = async <T>(work: () => Promise<T>): Promise<[T, number]> => {
      const began = performance.now();
      return [await work(), performance.now() - began];
    };
    const [good, backupMs] = await timed(async () => ended('backups', (await backUp()).id));
    expect(outcome(good)).toBe('completed');
    const [alone, restoreMs] = await timed(async () => proveCopy(await restore(good.id, 'alone'), wanted));
    expect(alone).toBe('completed');
    const tally: string[] = [`alone: backup ${Math.round(backupMs)} ms, restore ${Math.round(restoreMs)} ms`];
    const chosen = Object.entries(faults).filter(([name]) => only === undefined || only.includes(name));
    for (const [name, happen] of chosen)
      for (const instant of instants) {
        await running(database.id);
        const made = await backUp();
        await delay(backupMs * instant);
        await happen();
        const backup = await ended('backups', made.id);
        await running(database.id);
        const proof =
          backup.status === 'completed' ? await proveCopy(await restore(backup.id, 'proof'), wanted) : 'not asked for';
        if (backup.status === 'completed') expect(proof).toBe('completed');
        await remove(`backups/${backup.id}`);
        const restoring = await restore(good.id, 'copy');
        await delay(restoreMs * instant);
        await happen();
        tally.push(`${name} at ${instant}: backup ${outcome(backup)}, restore ${await proveCopy(restoring, wanted)}`);
        await running(database.id);
        expect(await digest(database.id)).toBe(wanted);
      }
    console.log(tally.join('\n'));
    await remove(`backups/${good.id}`);
    const s3 = gateway.client();
    const isEmpty = async (): Promise<boolean> => {
      const objects = await s3.send(new ListObjectsV2Command({ Bucket: bucket }));
      const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
      return (objects.Contents ?? []).length + (uploads.Uploads ?? []).length === 0;
    };
    await town.until('the bucket is empty', isEmpty, patientMs);
    await town.until('one container is left', async () => (await containersOf()).length === 1, patientMs);
    const volumes = await docker('volume', 'ls', '--quiet', '--filter', `label=${labels.server}=${town.server.id}`);
    expect(volumes.split('\n')).toHaveLength(1);
  },
  60 * 60_000,
);

const containersOf = (): Promise<string[]> => containersWith(labels.server, town.server.id);
