import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { uuidv5 } from '../../store/uuid.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
let volume: string;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  server = (await owner.post('/servers', { name: 'alpha' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  await owner.post('/settings/backup-destinations', {
    name: 'store',
    provider: 'custom',
    endpoint: 'https://s3.example.test',
    bucket: 'backups',
    access_key: 'AKIDOFTHETEST',
    secret_key: 'sesame',
  });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;
const said = ({ status, body }: Answer) => [status, body.error?.message];
const reason = ({ status, body }: Answer) => {
  const { field, reason: why } = body.error?.details?.[0] ?? {};
  return [status, field, why];
};

async function aVolume(fields: object = {}): Promise<string> {
  const { data, status } = await owner.post('/volumes', { project_id: project, name: aName(), ...fields });
  expect(status).toBe(201);
  await world.observe('volume', data.id, { phase: 'available' });
  return data.id;
}

async function anApplication(fields: object = {}): Promise<string> {
  const image = { source_type: 'image', image_url: 'web:1', exposed_port: 8080 };
  const { data, status } = await owner.post('/applications', {
    project_id: project,
    name: aName(),
    ...image,
    ...fields,
  });
  expect(status).toBe(201);
  return data.id;
}

const bind = (id: string, app: string, path = '/data'): Promise<Answer> =>
  owner.post(`/volumes/${id}/bind`, { workload_type: 'application', workload_id: app, mount_path: path });

async function aBackup(id: string): Promise<string> {
  const { data, status } = await owner.post(`/volumes/${id}/backup`, {});
  expect(status).toBe(201);
  const finished_at = '2030-01-01T00:00:00.000Z';
  const sizes = { size_bytes: 4, dump_bytes: 8, checksum_sha256: 'c'.repeat(64) };
  await world.observe('backup', data.id, { phase: 'completed', finished_at, ...sizes });
  return data.id;
}

beforeEach(async () => void (volume = await aVolume()));

describe('a backup of a volume', () => {
  it('says what it is of and how it is made, and is listed with its volume', async () => {
    const { data, status } = await owner.post(`/volumes/${volume}/backup`, { labels: { before: 'move' } });
    expect(status).toBe(201);
    const { name } = (await owner.get(`/volumes/${volume}`)).data;
    expect(data).toMatchObject({
      kind: 'volume',
      resource_id: volume,
      name,
      method: 'snapshot',
      type: null,
      version: null,
      trigger: 'manual',
      status: 'pending',
      labels: { before: 'move' },
      object_key: expect.stringMatching(new RegExp(`/${volume}/backups/${'[0-9a-f-]{36}'}/files.tar.zst$`)),
    });
    expect((await owner.get(`/volumes/${volume}/backups`)).data).toMatchObject([{ id: data.id }]);
  });

  it('is refused while the volume is not there, of the volume of a database, and where several have not ended', async () => {
    const { data } = await owner.post('/volumes', { project_id: project, name: aName() });
    expect(said(await owner.post(`/volumes/${data.id}/backup`, {}))).toEqual([
      409,
      'Cannot back up the volume as its server has not made it yet: wait until it is available',
    ]);
    await world.observe('volume', data.id, { phase: 'error' });
    expect((await owner.post(`/volumes/${data.id}/backup`, {})).status).toBe(409);
    const database = (await owner.post('/databases', { project_id: project, name: aName(), type: 'postgres' })).data;
    await world.observe('volume', database.data_volume_id, { phase: 'bound' });
    const [status, message] = said(await owner.post(`/volumes/${database.data_volume_id}/backup`, {}));
    expect([status, String(message)]).toEqual([409, expect.stringContaining('has the data of database')]);
    for (let n = 0; n < 5; n += 1) expect((await owner.post(`/volumes/${volume}/backup`, {})).status).toBe(201);
    expect((await owner.post(`/volumes/${volume}/backup`, {})).status).toBe(409);
  });

  it('keeps its volume from being deleted until it has ended', async () => {
    const { data } = await owner.post(`/volumes/${volume}/backup`, {});
    expect(said(await owner.delete(`/volumes/${volume}`))).toEqual([
      409,
      `Backup ${data.id} of the volume has not ended: wait for its end, or cancel it`,
    ]);
    await world.observe('backup', data.id, { phase: 'failed' });
    expect((await owner.delete(`/volumes/${volume}`)).status).toBe(200);
  });

  it('of each volume of an application is answered, to one who waits, once each of them has ended', async () => {
    const [app, other] = [await anApplication(), await aVolume()];
    await bind(volume, app);
    await bind(other, app, '/other');
    const schedule = await owner.post('/backup-schedules', { application_id: app, cron_expression: '@daily' });
    const run = `/backup-schedules/${schedule.data.id}/run`;
    for (const path of [`/applications/${app}/volume-backups`, run]) {
      let isAnswered = false;
      const before = new Set((await owner.get('/backups?limit=500')).data.map(({ id }: { id: string }) => id));
      const answered = owner.post(`${path}?wait=20`).finally(() => (isAnswered = true));
      const made = async (): Promise<{ id: string }[]> =>
        (await owner.get('/backups?limit=500')).data.filter(({ id }: { id: string }) => !before.has(id));
      await expect.poll(made).toHaveLength(2);
      const ended = { phase: 'completed', finished_at: '2030-01-01T00:00:00.000Z' } as const;
      const [one, two] = await made();
      await world.observe('backup', one!.id, ended);
      const seen = await owner.get(`/backups/${two!.id}`);
      expect([seen.data.status, isAnswered]).toEqual(['pending', false]);
      await world.observe('backup', two!.id, ended);
      const { status, data } = await answered;
      const all = Array.isArray(data) ? data : [data];
      expect([status, all.map((it) => it.status)]).toEqual([201, all.map(() => 'completed')]);
      expect(all).toHaveLength(path === run ? 1 : 2);
    }
  });

  it('is made of each volume that an application mounts', async () => {
    const app = await anApplication();
    expect((await owner.post(`/applications/${app}/volume-backups`, {})).status).toBe(409);
    const other = await aVolume();
    await bind(volume, app);
    await bind(other, app, '/other');
    const { data, status } = await owner.post(`/applications/${app}/volume-backups`, {});
    expect(status).toBe(201);
    expect(data.map((one: { resource_id: string }) => one.resource_id).toSorted()).toEqual([volume, other].toSorted());
    const listed = (await owner.get(`/applications/${app}/volume-backups`)).data;
    expect(listed.map((one: { id: string }) => one.id).toSorted()).toEqual(
      data.map((one: { id: string }) => one.id).toSorted(),
    );
  });
});

describe('a schedule', () => {
  const times = { cron_expression: '30 3 * * *' };

  it('is of one database, one volume, or the volumes of one application', async () => {
    const app = await anApplication();
    const made = await owner.post('/backup-schedules', { application_id: app, ...times });
    expect([made.status, made.data]).toMatchObject([201, { application_id: app, volume_id: null, database_id: null }]);
    const ofVolume = await owner.post('/backup-schedules', { volume_id: volume, ...times });
    expect([ofVolume.status, ofVolume.data]).toMatchObject([201, { volume_id: volume, application_id: null }]);
    expect(reason(await owner.post('/backup-schedules', { ...times, volume_id: volume, application_id: app }))).toEqual(
      [400, 'database_id', 'required'],
    );
    expect((await owner.post('/backup-schedules', times)).status).toBe(400);
    expect((await owner.post('/backup-schedules', { volume_id: project, ...times })).status).toBe(404);
  });

  it('makes a backup of each volume of its application now', async () => {
    const app = await anApplication();
    const { id } = (await owner.post('/backup-schedules', { application_id: app, ...times })).data;
    expect((await owner.post(`/backup-schedules/${id}/run`)).status).toBe(409);
    const other = await aVolume();
    await bind(volume, app);
    await bind(other, app, '/other');
    expect((await owner.post(`/backup-schedules/${id}/run`)).status).toBe(201);
    const listed = (await owner.get(`/applications/${app}/volume-backups`)).data;
    expect(listed).toHaveLength(2);
    expect(listed.every((one: { schedule_id: string }) => one.schedule_id === id)).toBe(true);
  });
});

describe('the backup fields of a volume', () => {
  const none = {
    backup_enabled: false,
    backup_interval_minutes: null,
    backup_destination_id: null,
    retention_count: null,
  };
  const fieldsOf = async (id: string) => (await owner.get(`/volumes/${id}`)).data;
  const schedulesOf = async (id: string): Promise<Record<string, string>[]> =>
    (await owner.get('/backup-schedules')).data.filter((one: Record<string, string>) => one['volume_id'] === id);

  it('make its schedule, once a day with 7 backups unless told otherwise', async () => {
    expect(await fieldsOf(volume)).toMatchObject(none);
    expect(await schedulesOf(volume)).toEqual([]);
    const usual = await owner.post('/volumes', { project_id: project, name: aName(), backup_enabled: true });
    expect(usual.data).toMatchObject({
      backup_enabled: true,
      backup_interval_minutes: 1440,
      backup_destination_id: expect.any(String),
      retention_count: 7,
    });
    const { backup_destination_id } = usual.data;
    const wanted = {
      backup_enabled: true,
      backup_interval_minutes: 90,
      backup_destination_id,
      retention_count: 3,
    };
    const made = await owner.post('/volumes', { project_id: project, name: aName(), ...wanted });
    expect([made.status, made.data]).toEqual([201, expect.objectContaining(wanted)]);
    expect(await fieldsOf(made.data.id)).toMatchObject(wanted);
    expect(await schedulesOf(made.data.id)).toEqual([
      expect.objectContaining({ cron_expression: '@every 90m', retention_count: 3, is_paused: false }),
    ]);
  });

  it('are not kept without a schedule', async () => {
    const fields = { backup_enabled: false, retention_count: 3 };
    const { data } = await owner.post('/volumes', { project_id: project, name: aName(), ...fields });
    expect(data).toMatchObject(none);
    const absent = { retention_count: 3 };
    for (const answer of [
      await owner.put(`/volumes/${volume}`, absent),
      await owner.post('/volumes', { project_id: project, name: aName(), ...absent }),
    ])
      expect(reason(answer)).toEqual([400, 'backup_enabled', 'required']);
    expect((await owner.put(`/volumes/${volume}`, { backup_enabled: false })).data).toMatchObject(none);
  });

  it('change its schedule and pause it; a cron expression of it is no interval', async () => {
    const path = `/volumes/${volume}`;
    expect((await owner.put(path, { backup_enabled: true })).data).toMatchObject({ backup_interval_minutes: 1440 });
    const changed = { backup_interval_minutes: 60, retention_count: 2 };
    expect((await owner.put(path, changed)).data).toMatchObject({ backup_enabled: true, ...changed });
    expect((await owner.put(path, { backup_enabled: false })).data).toMatchObject({
      backup_enabled: false,
      ...changed,
    });
    const [schedule, ...more] = await schedulesOf(volume);
    expect([schedule?.['status'], more]).toEqual(['paused', []]);
    expect((await owner.put(path, { backup_enabled: true, name: aName() })).data).toMatchObject({
      backup_enabled: true,
      ...changed,
    });
    // more often than the fields of a volume may ask for, and sent back as it is shown
    await owner.put(`/backup-schedules/${schedule?.['id'] ?? ''}`, { cron_expression: '@every 2m' });
    expect((await owner.put(path, { backup_interval_minutes: 2 })).status).toBe(200);
    expect((await owner.put(path, { backup_interval_minutes: 3 })).status).toBe(400);
    await owner.put(`/backup-schedules/${schedule?.['id'] ?? ''}`, { cron_expression: '@daily' });
    expect(await fieldsOf(volume)).toMatchObject({ backup_enabled: true, backup_interval_minutes: null });
    await owner.delete(`/backup-schedules/${schedule?.['id'] ?? ''}`);
    expect(await fieldsOf(volume)).toMatchObject(none);
  });

  it.each([
    [{ backup_interval_minutes: 0 }, 'backup_interval_minutes'],
    [{ backup_enabled: true, backup_interval_minutes: 4 }, 'backup_interval_minutes'],
    [{ backup_interval_minutes: 525_601 }, 'backup_interval_minutes'],
    [{ retention_count: 366 }, 'retention_count'],
    [{ backup_enabled: 'yes' }, 'backup_enabled'],
  ])('are refused with the field: %j', async (fields, field) => {
    const body = { project_id: project, name: aName(), backup_enabled: true, ...fields };
    expect(reason(await owner.post('/volumes', body)).slice(0, 2)).toEqual([400, field]);
    expect(reason(await owner.put(`/volumes/${volume}`, fields)).slice(0, 2)).toEqual([400, field]);
  });

  it('need the right to make schedules', async () => {
    const member = await world.user();
    const role = { project_id: project, user_id: member.id, role: 'member' as const };
    await world.create('member', crypto.randomUUID(), desiredState('member', role));
    const body = { project_id: project, name: aName() };
    expect((await member.post('/volumes', { ...body, backup_enabled: true })).status).toBe(403);
    expect((await member.put(`/volumes/${volume}`, { backup_enabled: true })).status).toBe(403);
    expect((await member.post('/volumes', body)).status).toBe(201);
    for (const enabled of [false, true]) {
      const { data } = await owner.put(`/volumes/${volume}`, { backup_enabled: enabled });
      const { backup_enabled, backup_interval_minutes, backup_destination_id, retention_count } = data;
      const asShown = { backup_enabled, backup_interval_minutes, backup_destination_id, retention_count };
      expect((await member.put(`/volumes/${volume}`, { name: aName(), ...asShown })).status).toBe(200);
      expect((await member.put(`/volumes/${volume}`, { ...asShown, backup_enabled: !enabled })).status).toBe(403);
    }
    expect((await member.put(`/volumes/${volume}`, { retention_count: 3 })).status).toBe(403);
  });

  it('make one schedule, also by several requests at once, and one that was deleted leaves its backups', async () => {
    const enable = () => owner.put(`/volumes/${volume}`, { backup_enabled: true });
    const all = await Promise.all(Array.from({ length: 10 }, enable));
    expect(all.filter(({ status }) => status !== 200)).toEqual([]);
    const [first, ...more] = await schedulesOf(volume);
    expect(more).toEqual([]);
    // two replicas that know the same make the same one, so that one of them finds that of the other
    expect(first?.['id']).toBe(uuidv5(volume, 'schedule/'));
    expect((await owner.post(`/backup-schedules/${first?.['id'] ?? ''}/run`)).status).toBe(201);
    await owner.delete(`/backup-schedules/${first?.['id'] ?? ''}`);
    await enable();
    const [next] = await schedulesOf(volume);
    expect([typeof next?.['id'], next?.['id'] === first?.['id']]).toEqual(['string', false]);
  });
});

describe('a restore', () => {
  it('is made beside the volume, which nobody else takes meanwhile, once at a time', async () => {
    const backup = await aBackup(volume);
    const made = await owner.post(`/backups/volume/${backup}/restore`);
    expect([made.status, made.data]).toMatchObject([
      201,
      { kind: 'volume', resource_id: volume, database_id: null, former_volume_id: null, status: 'pending' },
    ]);
    expect(made.data.volume_id).not.toBe(volume);
    expect((await owner.post(`/backups/volume/${backup}/restore`)).status).toBe(409);
    await world.observe('volume', made.data.volume_id, { phase: 'available' });
    const app = await anApplication();
    for (const refused of [
      await bind(made.data.volume_id, app),
      await owner.delete(`/volumes/${made.data.volume_id}`),
      await owner.post(`/volumes/${made.data.volume_id}/backup`, {}),
    ])
      expect(said(refused)).toEqual([409, `Restore ${made.data.id} makes the volume: wait for its end, or cancel it`]);
  });

  it('is refused of a backup that is not completed, is of a database, or whose volume is gone', async () => {
    const { data } = await owner.post(`/volumes/${volume}/backup`, {});
    expect((await owner.post(`/backups/volume/${data.id}/restore`)).status).toBe(409);
    await world.observe('backup', data.id, { phase: 'failed' });
    const database = (await owner.post('/databases', { project_id: project, name: aName(), type: 'postgres' })).data;
    await world.observe('database', database.id, { phase: 'running' });
    const dump = (await owner.post(`/databases/${database.id}/backups`, {})).data;
    await world.observe('backup', dump.id, { phase: 'completed' });
    for (const verb of ['restore', 'clone'])
      expect((await owner.post(`/backups/volume/${dump.id}/${verb}`, verb === 'clone' ? {} : undefined)).status).toBe(
        409,
      );
    const backup = await aBackup(volume);
    const into = { database_id: database.id };
    expect((await owner.post(`/backups/database/${backup}/restore`, into)).status).toBe(409);
    expect((await owner.post(`/backups/database/${backup}/restore`, { new_name: aName() })).status).toBe(409);
    expect((await owner.delete(`/volumes/${volume}`)).status).toBe(200);
    expect((await owner.post(`/backups/volume/${backup}/restore`)).status).toBe(409);
  });

  it('is refused of a backup that says itself that it is of a volume of another project', async () => {
    const other = (await owner.post('/projects', { name: aName(), default_server_id: server })).data;
    const { desired } = (await world.repo.get('backup', await aBackup(volume)))!;
    const id = crypto.randomUUID();
    await world.create('backup', id, { ...plainCopy(desired), project_id: other.id });
    await world.observe('backup', id, { phase: 'completed' });
    for (const path of [`/backups/volume/${id}/restore`, `/backups/${id}/verify`])
      expect(said(await owner.post(path))).toEqual([409, expect.stringContaining('is in another project')]);
  });
});

describe('a clone', () => {
  it('is a volume of its own, beside the former one or where its application is', async () => {
    const backup = await aBackup(volume);
    const alone = await owner.post(`/backups/volume/${backup}/clone`, { name: aName() });
    expect([alone.status, alone.data]).toMatchObject([201, { kind: 'volume', former_volume_id: null }]);
    expect((await owner.get(`/volumes/${alone.data.volume_id}`)).data).toMatchObject({
      server_id: server,
      project_id: project,
    });
    const elsewhere = (await owner.post('/servers', { name: 'beta' })).data.id;
    const other = (await owner.post('/projects', { name: aName(), default_server_id: elsewhere })).data.id;
    const app = await anApplication({ project_id: other });
    const made = await owner.post(`/backups/volume/${backup}/clone`, {
      workload_type: 'application',
      workload_id: app,
      mount_path: '/data',
    });
    expect(made.status).toBe(201);
    expect((await owner.get(`/volumes/${made.data.volume_id}`)).data).toMatchObject({
      server_id: elsewhere,
      project_id: other,
      bindings: [],
    });
  });

  it('is mounted by a function of its environment, at a path that the function has free', async () => {
    const backup = await aBackup(volume);
    const code = { runtime: 'node20', code: 'export default 1' };
    const fn = (await owner.post('/functions', { project_id: project, name: aName(), ...code })).data.id;
    const clone = (fields: object) =>
      owner.post(`/backups/volume/${backup}/clone`, { name: aName(), workload_id: fn, mount_path: '/data', ...fields });
    for (const fields of [{}, { workload_type: 'function' }]) {
      const made = await clone(fields);
      expect(made.status).toBe(201);
      expect((await world.repo.get('restore', made.data.id))?.desired.bind).toEqual({
        application_id: fn,
        workload_kind: 'function',
        path: '/data',
        read_only: false,
      });
    }
    expect((await clone({ mount_path: '/tmp/x' })).status).toBe(409);
    expect(reason(await clone({ workload_type: 'application' })).slice(0, 2)).toEqual([404, 'workload_id']);
  });

  it('needs the right in the project that it goes to, and a path that is free', async () => {
    const backup = await aBackup(volume);
    const clerk = await world.user();
    const own = (await clerk.post('/projects', { name: aName() })).data.id;
    // of its own project the clerk is the owner, and of that of the backup it is none
    const asked = { project_id: own, server_id: server };
    expect((await clerk.post(`/backups/volume/${backup}/clone`, asked)).status).toBe(403);
    const app = await anApplication();
    await bind(volume, app);
    const to = (path: string) => ({ workload_type: 'application', workload_id: app, mount_path: path, name: aName() });
    expect((await owner.post(`/backups/volume/${backup}/clone`, to('/data/below'))).status).toBe(409);
    expect((await owner.post(`/backups/volume/${backup}/clone`, to('/beside'))).status).toBe(201);
    expect(reason(await owner.post(`/backups/volume/${backup}/clone`, { mount_path: '/data' }))).toEqual([
      400,
      'workload_id',
      'required',
    ]);
  });
});
