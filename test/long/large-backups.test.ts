import { writeFile } from 'node:fs/promises';
import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { usageOf } from '../../bench/process-figures.ts';
import type { ApiObject } from '../../cli/client.ts';
import { builtRelease } from '../harness/built-release.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { MemoryGroup } from '../harness/memory-group.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const patientMs = 1_200_000;
const megabytes = Number(process.env['LARGE_BACKUP_MB'] ?? 2048);
const bucket = 'large';
/**
 * The most that backups and restores may take of memory, in MB: of the agent, which the kernel sees to, and of the control
 * plane above rest. What the agent has mapped of its executable may be more: the kernel drops such pages as it likes.
 */
const most = { agent: 150, controlPlaneMore: 20 };
/** For so long the memory at rest is looked at. */
const restMs = 20_000;
/** Two gigabytes are made, read, sent, fetched and compared. */
const timeout = 2 * patientMs;

let group: MemoryGroup;
let town: Installation;
let gateway: S3Gateway;

beforeAll(async () => {
  const image = await ensureDatabaseImage('postgres');
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
  // what servers run: an agent from a checkout has its compiler in memory, too
  const { executable } = await builtRelease();
  group = await MemoryGroup.make(most.agent * 1e6);
  town = await Installation.start({
    store: 'sqlite',
    serverFlags: ['--engine-images', `postgres=${image}`],
    agentExecutable: await group.within(executable),
  });
  await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await town.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'large',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket,
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
  });
}, 300_000);
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await group[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

/** Resolves with how long it took, in seconds. */
async function ended(kind: 'backups' | 'restores', { id }: ApiObject): Promise<number> {
  const began = performance.now();
  let now: ApiObject | undefined;
  await town.until(
    `${kind} ${id} has ended`,
    async () => {
      now = await town.client.object('GET', `/api/v1/${kind}/${id}`);
      return now.status === 'completed' || now.status === 'failed';
    },
    patientMs,
  );
  expect({ status: now?.status, error: now?.['error'] }).toEqual({ status: 'completed', error: null });
  return (performance.now() - began) / 1000;
}

/** The memory of agent and control plane now, and the most that they had since it was reset, in MB. */
async function memory() {
  const [agent, controlPlane] = await Promise.all(processes().map(usageOf));
  return { agent: agent!, controlPlane: controlPlane! };
}

function processes(): number[] {
  return [town.agent, town.replicas[0]?.program].map((it) => it?.pid ?? 0);
}

/** The most that they had counts from here on: the kernel forgets it. */
async function resetPeaks(): Promise<void> {
  for (const pid of processes()) await writeFile(`/proc/${pid}/clear_refs`, '5');
}

/** Carries out what moves the bytes, and holds what it took of memory against its bound. */
async function within(what: string, work: () => Promise<Record<string, number>>): Promise<void> {
  await resetPeaks();
  // what a client that asks and asks costs is no matter of the backup
  for (const over = performance.now() + restMs; performance.now() < over; await wait(100))
    await town.client.list('/api/v1/backups');
  const before = await memory();
  await resetPeaks();
  const took = await work();
  const after = await memory();
  const controlPlaneMore = Math.round(after.controlPlane.peakMb - before.controlPlane.peakMb);
  const resident = { agent: Math.round(after.agent.peakMb), ofThatBefore: Math.round(before.agent.memoryMb) };
  console.log(what, took, { controlPlaneMore, resident }, await group.figures());
  // an agent that needed more was ended, and what it did began anew
  expect((await group.figures()).kills).toBe(0);
  expect(controlPlaneMore).toBeLessThan(most.controlPlaneMore);
}

it(
  'a large database goes to its bucket and comes back with all of its rows, in little memory',
  { timeout },
  async () => {
    const database = await town.client.object('POST', '/api/v1/databases', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'orders',
      type: 'postgres',
    });
    const running = (id: string): Promise<unknown> =>
      town.until(
        'the database is running',
        async () => (await town.client.object('GET', `/api/v1/databases/${id}`)).status === 'running',
        patientMs,
      );
    await running(database.id);
    const sql = async (id: string, ...texts: string[]): Promise<string> => {
      const [container = ''] = await instancesOf(id);
      const asked = texts.flatMap((text) => ['-c', text]);
      return docker('exec', container, 'psql', '-XqtA', '-v', 'ON_ERROR_STOP=1', ...asked);
    };
    await sql(
      database.id,
      'CREATE EXTENSION pgcrypto',
      'CREATE UNLOGGED TABLE blobs (n int, b bytea)',
      'ALTER TABLE blobs ALTER b SET STORAGE EXTERNAL',
    );
    // bytes that do not get smaller
    for (let megabyte = 0; megabyte < megabytes; megabyte += 256)
      await sql(
        database.id,
        `INSERT INTO blobs SELECT ${megabyte * 1024} + n, gen_random_bytes(1024) FROM generate_series(1, ${256 * 1024}) n`,
      );
    const digest = (id: string): Promise<string> =>
      sql(id, 'SELECT count(*), sum(n::bigint), bit_xor(hashtextextended(encode(b, $$hex$$), n)) FROM blobs');
    const wanted = await digest(database.id);
    await within(`a database of ${megabytes} MiB`, async () => {
      const made = await town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {});
      const backupSeconds = await ended('backups', made);
      const restoring = await town.client.object('POST', `/api/v1/backups/database/${made.id}/restore`, {
        new_name: 'copy',
      });
      const restoreSeconds = await ended('restores', restoring);
      const copy = String(restoring['database_id']);
      await running(copy);
      expect(await digest(copy)).toBe(wanted);
      await town.client.request('DELETE', `/api/v1/databases/${copy}?wait=60`, undefined);
      await town.client.request('DELETE', `/api/v1/backups/${made.id}?wait=60`, undefined);
      return { backupSeconds, restoreSeconds };
    });
    await town.client.request('DELETE', `/api/v1/databases/${database.id}?wait=60`, undefined);
  },
);

it(
  'a large volume goes to its bucket and comes back with all of its bytes, in little memory',
  { timeout },
  async () => {
    const { http } = await ensureTestImages();
    const port = await freePort();
    const app = await town.createApplication({
      source_type: 'image',
      image_url: http,
      exposed_port: port,
      env: { PORT: String(port) },
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    const volume = await town.client.object('POST', '/api/v1/volumes', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'files',
    });
    const bind = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
    const inside = async (script: string): Promise<string> => {
      let instance = '';
      await town.until(
        'it has one instance',
        async () => {
          const all = await instancesOf(app.id);
          instance = all[0] ?? '';
          return all.length === 1;
        },
        patientMs,
      );
      return docker('exec', instance, '/bin/node', '-e', script);
    };
    const hash = `const { createHash } = require('node:crypto'), fs = require('node:fs');
    const sum = createHash('sha256');
    for (let n = 0; n < ${megabytes / 64}; n++) sum.update(fs.readFileSync('/data/' + n));
    process.stdout.write(sum.digest('hex'))`;
    await inside(`const { randomBytes } = require('node:crypto');
    for (let n = 0; n < ${megabytes / 64}; n++)
      require('node:fs').writeFileSync('/data/' + n, randomBytes(64 * 1024 * 1024))`);
    const wanted = await inside(hash);
    await within(`a volume of ${megabytes} MiB`, async () => {
      const made = await town.client.object('POST', `/api/v1/volumes/${volume.id}/backup`, {});
      const backupSeconds = await ended('backups', made);
      await inside(`require('node:fs').writeFileSync('/data/0', 'other')`);
      const restoring = await town.client.object('POST', `/api/v1/backups/volume/${made.id}/restore`, {});
      const restoreSeconds = await ended('restores', restoring);
      await town.until(
        'the application has the bytes of the backup',
        async () => (await inside(hash).catch(() => '')) === wanted,
        patientMs,
      );
      await town.client.request('DELETE', `/api/v1/backups/${made.id}?wait=60`, undefined);
      return { backupSeconds, restoreSeconds };
    });
    const { KeyCount } = await gateway.client().send(new ListObjectsV2Command({ Bucket: bucket }));
    expect(KeyCount).toBe(0);
  },
);
