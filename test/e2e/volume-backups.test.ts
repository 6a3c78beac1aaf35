import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const patientMs = 120_000;
const bucket = 'volumes';
let town: Installation;
let gateway: S3Gateway;
let app: ApiObject;
let volume: ApiObject;
let backup: ApiObject;

beforeAll(async () => {
  gateway = await s3Gateway();
  town = await Installation.start({ store: 'sqlite' });
  await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
  await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
  await town.client.object('POST', '/api/v1/settings/backup-destinations', {
    name: 'bucket',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket,
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
  });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

async function deployed(): Promise<ApiObject> {
  const { http } = await ensureTestImages();
  const port = await freePort();
  const made = await town.createApplication({
    source_type: 'image',
    image_url: http,
    exposed_port: port,
    min_healthy_seconds: 1,
    env: { PORT: String(port) },
  });
  await town.deployment((await town.deploy(made.id)).id, 'succeeded', patientMs);
  return made;
}

async function ended(it: ApiObject, kind: 'backups' | 'restores'): Promise<ApiObject> {
  let now = it;
  const isEnded = async (): Promise<boolean> => {
    now = await town.client.object('GET', `/api/v1/${kind}/${it.id}`);
    return now.status === 'completed' || now.status === 'failed';
  };
  await town.until(`${it.id} has ended`, isEnded, patientMs).catch((cause: unknown) => {
    throw new Error(`It has not ended: ${JSON.stringify(now)}`, { cause });
  });
  expect({ status: now.status, error: now['error'] }).toEqual({ status: 'completed', error: null });
  return now;
}

/** Runs a program of Node in the container of an application. */
async function inside(of: ApiObject, script: string): Promise<string> {
  let instance = '';
  await town.until(
    'it has one instance',
    async () => {
      const all = await instancesOf(of.id);
      instance = all[0] ?? '';
      return all.length === 1;
    },
    patientMs,
  );
  return docker('exec', instance, '/bin/node', '-e', script);
}
const read = (path: string): string =>
  `try { process.stdout.write(require('node:fs').readFileSync('${path}', 'utf8')) } catch (e) { process.stdout.write(e.code) }`;
const write = (path: string, text: string): string => `require('node:fs').writeFileSync('${path}', '${text}')`;

/** Waits until the application has that at the path: its instances are replaced. */
const has = (of: ApiObject, path: string, text: string): Promise<unknown> =>
  town.until(`${path} has ${text}`, async () => (await inside(of, read(path)).catch(() => '')) === text, patientMs);

it('goes to a bucket while its application writes', async () => {
  app = await deployed();
  volume = await town.client.object('POST', '/api/v1/volumes', {
    project_id: town.project.id,
    server_id: town.server.id,
    name: 'notes',
  });
  const bind = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
  await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
  await inside(app, write('/data/note', 'first'));
  backup = await ended(await town.client.object('POST', `/api/v1/volumes/${volume.id}/backup`, {}), 'backups');
  expect(backup).toMatchObject({ kind: 'volume', method: 'snapshot', resource_id: volume.id, type: null });
  const listed = await gateway.client().send(new ListObjectsV2Command({ Bucket: bucket }));
  expect(listed.Contents?.find(({ Key }) => Key === backup['object_key'])?.Size).toBe(backup['size_bytes']);
});

it('is restored for trial beside its volume, and nothing of that is left', async () => {
  const drill = await town.client.object('POST', `/api/v1/backups/${backup.id}/verify`);
  await ended(drill, 'restores');
  await town.until(
    'what it restored is gone',
    async () =>
      (await docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`)).split('\n')
        .length === 1,
    patientMs,
  );
  expect(await town.client.object('GET', `/api/v1/backups/${backup.id}`)).toMatchObject({
    proven_at: expect.any(String),
    verification: { status: 'proven', restore_id: drill.id },
  });
  expect(await inside(app, read('/data/note'))).toBe('first');
});

it('comes back in place, and the former data stays in a volume beside it', async () => {
  await inside(app, write('/data/note', 'second'));
  const made = await town.client.object('POST', `/api/v1/backups/volume/${backup.id}/restore`, {});
  const restore = await ended(made, 'restores');
  await has(app, '/data/note', 'first');
  const former = await town.client.object('GET', `/api/v1/volumes/${String(restore['former_volume_id'])}`);
  expect(former).toMatchObject({ expires_at: expect.any(String), bindings: [] });
  expect(await town.client.object('GET', `/api/v1/volumes/${volume.id}`)).toMatchObject({ name: 'notes' });

  // the former data can be had again
  await town.client.request('POST', `/api/v1/volumes/${volume.id}/unbind?wait=60`, {});
  const bind = { workload_type: 'application', workload_id: app.id, mount_path: '/data' };
  await town.client.request('POST', `/api/v1/volumes/${former.id}/bind?wait=60`, bind);
  await has(app, '/data/note', 'second');
  await town.client.request('POST', `/api/v1/volumes/${former.id}/unbind?wait=60`, {});
  await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
  await has(app, '/data/note', 'first');
  await town.client.request('DELETE', `/api/v1/volumes/${former.id}?wait=60`, undefined);
});

it('becomes a volume of another application', async () => {
  const other = await deployed();
  const made = await town.client.object('POST', `/api/v1/backups/volume/${backup.id}/clone`, {
    name: 'copy',
    workload_type: 'application',
    workload_id: other.id,
    mount_path: '/copy',
  });
  const restore = await ended(made, 'restores');
  await has(other, '/copy/note', 'first');
  await town.client.request('DELETE', `/api/v1/applications/${other.id}?wait=60`, undefined);
  await town.client.request('DELETE', `/api/v1/volumes/${String(restore['volume_id'])}?wait=60`, undefined);
});

it('comes back after its data was lost', async () => {
  const names = await docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`);
  expect(names.split('\n')).toHaveLength(1);
  await town.client.request('POST', `/api/v1/applications/${app.id}/stop?wait=60`, {});
  await docker('volume', 'rm', names);
  const lost = async (): Promise<boolean> => {
    const now = await town.client.object('GET', `/api/v1/volumes/${volume.id}`);
    return now.conditions?.some(({ reason }) => reason === 'DataLost') === true;
  };
  await town.until('the volume is lost', lost, patientMs);
  await expect(town.client.request('POST', `/api/v1/volumes/${volume.id}/backup`, {})).rejects.toThrow('in error');
  await ended(await town.client.object('POST', `/api/v1/backups/volume/${backup.id}/restore`, {}), 'restores');
  await town.client.request('POST', `/api/v1/applications/${app.id}/start?wait=60`, {});
  await has(app, '/data/note', 'first');
});

it('leaves nothing when all is deleted', async () => {
  await town.client.request('DELETE', `/api/v1/applications/${app.id}?wait=60`, undefined);
  for (const { id } of await town.client.list('/api/v1/volumes'))
    await town.client.request('DELETE', `/api/v1/volumes/${id}?wait=60`, undefined);
  await town.client.request('DELETE', `/api/v1/backups/${backup.id}?wait=60`, undefined);
  const left = await gateway.client().send(new ListObjectsV2Command({ Bucket: bucket }));
  expect(left.Contents ?? []).toEqual([]);
  expect(await docker('volume', 'ls', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`)).toBe('');
});
