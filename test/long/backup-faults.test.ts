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
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { ensureTestImages } from '../harness/test-image.ts';

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
let application: ApiObject;
let volume: ApiObject;

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
  application = await withVolume();
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
  // It may be between two starts.
  'what uses the data': async () => {
    for (const user of [database, application])
      for (const container of await instancesOf(user.id)) await docker('kill', container).catch(() => '');
  },
};

/** An application that runs, with a volume that has files of bytes that do not get smaller. */
async function withVolume(): Promise<ApiObject> {
  const { http } = await ensureTestImages();
  const port = await freePort();
  const image = { source_type: 'image', image_url: http };
  const made = await town.createApplication({ ...image, ...brief, exposed_port: port, env: { PORT: String(port) } });
  await town.deployment((await town.deploy(made.id)).id, 'succeeded', patientMs);
  volume = await town.client.object('POST', '/api/v1/volumes', {
    project_id: town.project.id,
    server_id: town.server.id,
    name: 'files',
  });
  const bind = { workload_type: 'application', workload_id: made.id, mount_path: '/data' };
  await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
  await inside(
    made.id,
    `const { randomBytes } = require('node:crypto');
    for (let n = 0; n < ${megabytes}; n++) require('node:fs').writeFileSync('/data/' + n, randomBytes(1024 * 1024))`,
  );
  return made;
}

/** Runs a program of Node in the one instance of an application, once there is one. */
async function inside(id: string, script: string): Promise<string> {
  let answer = '';
  await town.until(
    'a program runs in the one instance',
    async () => {
      const all = await instancesOf(id);
      if (all.length !== 1) return false;
      const made = await docker('exec', all[0]!, '/bin/node', '-e', script).catch(() => undefined);
      answer = made ?? '';
      return made !== undefined;
    },
    patientMs,
  );
  return answer;
}

const remove = async (path: string): Promise<void> =>
  void (await town.client.request('DELETE', `/api/v1/${path}?wait=60`, undefined));
/** How it ended: `completed`, or the code of its error. */
const outcome = (ended: ApiObject): string => Ended.parse(ended['error'])?.code ?? 'completed';

/** What is backed up and restored. */
interface Subject {
  backUp(): Promise<ApiObject>;
  restore(backup: string): Promise<ApiObject>;
  /** Compares what is there after a restore with what has to be, and removes what the restore made. */
  prove(restored: ApiObject, wanted: string): Promise<void>;
  digest(): Promise<string>;
  /** Resolves once it serves. */
  serves(): Promise<void>;
}

const digest = (id: string): Promise<string> =>
  sql(id, "SELECT count(*), md5(string_agg(md5(b), '' ORDER BY n)) FROM blobs");
const note = "'/data/note'";
const subjects: Record<string, Subject> = {
  'a database that is restored into another one': {
    backUp: () => town.client.object('POST', `/api/v1/databases/${database.id}/backups`, {}),
    restore: (backup) => town.client.object('POST', `/api/v1/backups/database/${backup}/restore`, { new_name: 'copy' }),
    digest: () => digest(database.id),
    serves: () => running(database.id),
    async prove(restored, wanted) {
      const copy = String(restored['database_id']);
      if (restored.status === 'completed') {
        await running(copy);
        expect(await digest(copy)).toBe(wanted);
      }
      await remove(`databases/${copy}`);
    },
  },
  'a volume that is restored in place': {
    backUp: () => town.client.object('POST', `/api/v1/volumes/${volume.id}/backup`, {}),
    async restore(backup) {
      await inside(application.id, `require('node:fs').writeFileSync(${note}, 'of after the backup')`);
      return town.client.object('POST', `/api/v1/backups/volume/${backup}/restore`, {});
    },
    digest: () =>
      inside(
        application.id,
        `const fs = require('node:fs'), sum = require('node:crypto').createHash('sha256');
        for (const name of fs.readdirSync('/data').sort()) sum.update(name).update(fs.readFileSync('/data/' + name));
        process.stdout.write(sum.digest('hex'))`,
      ),
    serves: async () => void (await inside(application.id, '')),
    async prove(restored, wanted) {
      if (restored.status === 'completed') {
        const isRestored = async (): Promise<boolean> => (await this.digest()) === wanted;
        await town.until('the application has what was restored', isRestored, patientMs);
        await remove(`volumes/${String(restored['former_volume_id'])}`);
        return;
      }
      const kept = await inside(application.id, `process.stdout.write(require('node:fs').readFileSync(${note}))`);
      expect(kept).toBe('of after the backup');
      await inside(application.id, `require('node:fs').unlinkSync(${note})`);
    },
  },
};

it.each(Object.entries(subjects))(
  'a backup that is completed can be restored, whatever is killed at three instants, and nothing else is left: %s',
  async (_, subject) => {
    const wanted = await subject.digest();
    const before = await leftNow();
    const timed = async <T>(work: () => Promise<T>): Promise<[T, number]> => {
      const began = performance.now();
      return [await work(), performance.now() - began];
    };
    const proven = async (restoring: ApiObject): Promise<string> => {
      const restored = await ended('restores', restoring.id);
      await subject.prove(restored, wanted);
      return outcome(restored);
    };
    const [good, backupMs] = await timed(async () => ended('backups', (await subject.backUp()).id));
    expect(outcome(good)).toBe('completed');
    const [alone, restoreMs] = await timed(async () => ended('restores', (await subject.restore(good.id)).id));
    await subject.prove(alone, wanted);
    expect(outcome(alone)).toBe('completed');
    const tally: string[] = [`alone: backup ${Math.round(backupMs)} ms, restore ${Math.round(restoreMs)} ms`];
    const chosen = Object.entries(faults).filter(([name]) => only === undefined || only.includes(name));
    for (const [name, happen] of chosen)
      for (const instant of instants) {
        await subject.serves();
        const made = await subject.backUp();
        await delay(backupMs * instant);
        await happen();
        const backup = await ended('backups', made.id);
        await subject.serves();
        if (backup.status === 'completed') expect(await proven(await subject.restore(backup.id))).toBe('completed');
        await remove(`backups/${backup.id}`);
        const restoring = await subject.restore(good.id);
        await delay(restoreMs * instant);
        await happen();
        tally.push(`${name} at ${instant}: backup ${outcome(backup)}, restore ${await proven(restoring)}`);
        await subject.serves();
        expect(await subject.digest()).toBe(wanted);
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
    const isAsBefore = async (): Promise<boolean> => JSON.stringify(await leftNow()) === JSON.stringify(before);
    await town.until('as many containers and volumes are there as before', isAsBefore, patientMs);
  },
  60 * 60_000,
);

async function leftNow(): Promise<{ containers: number; volumes: number }> {
  const volumes = await docker('volume', 'ls', '--quiet', '--filter', `label=${labels.server}=${town.server.id}`);
  const containers = await containersWith(labels.server, town.server.id);
  return { containers: containers.length, volumes: volumes.split('\n').length };
}
