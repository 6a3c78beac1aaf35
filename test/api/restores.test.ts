import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { uuidv5 } from '../../store/uuid.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { desiredState, ofDatabase } from '../harness/states.ts';

const unlimited = { perMinute: 0, burst: 1 };
const nowhere = '00000000-0000-4000-8000-000000000000';

let world: ApiWorld;
let owner: Client;
let project: string;
let elsewhere: string;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  const server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  elsewhere = (await owner.post('/projects', { name: 'other', default_server_id: server })).data.id;
  await owner.post('/settings/backup-destinations', {
    name: 'nightly',
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

async function aDatabase(fields: object = {}): Promise<string> {
  const body = { project_id: project, name: aName(), type: 'postgres', ...fields };
  const { data, status } = await owner.post('/databases', body);
  expect(status).toBe(201);
  await world.observe('database', data.id, { phase: 'running' });
  return data.id;
}

type Phase = 'pending' | 'running' | 'verifying' | 'completed' | 'failed' | 'expired';

async function aBackup(database: string, phase: Phase = 'completed'): Promise<string> {
  const { data, status } = await owner.post(`/databases/${database}/backups`, {});
  expect(status).toBe(201);
  await world.observe('backup', data.id, { phase });
  return data.id;
}

const inPlace = (database: string, backup_id: string): Promise<Answer> =>
  owner.post(`/databases/${database}/restore`, { backup_id });
const restore = (backup: string, fields: object = {}): Promise<Answer> =>
  owner.post(`/backups/database/${backup}/restore`, fields);

describe('a restore in place', () => {
  it('goes into a new volume, while the database serves from its own', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    const before = (await owner.get(`/databases/${id}`)).data;
    const { data, status } = await inPlace(id, backup);
    expect(status).toBe(201);
    expect(data).toMatchObject({
      project_id: project,
      environment_id: before.environment_id,
      name: before.name,
      backup_id: backup,
      database_id: id,
      former_volume_id: null,
      status: 'pending',
      progress: null,
      finished_at: null,
      error: null,
    });
    expect(data.volume_id).not.toBe(before.data_volume_id);
    expect((await owner.get(`/volumes/${data.volume_id}`)).status).toBe(200);
    expect((await owner.get(`/databases/${id}`)).data).toMatchObject({
      data_volume_id: before.data_volume_id,
      status: 'provisioning',
      run: 'running',
      conditions: expect.arrayContaining([
        expect.objectContaining({ type: 'Restoring', status: 'true', message: expect.stringContaining(data.id) }),
      ]),
    });
    const records = JSON.stringify((await owner.get('/audit?limit=500')).data);
    expect(records).toContain('POST /databases/:id/restore');
    expect(records).toContain(data.id);
  });

  it('is of the database that the backup is of, or of another one that is alike', async () => {
    const [id, other] = [await aDatabase(), await aDatabase()];
    const backup = await aBackup(id);
    expect((await restore(backup)).data.database_id).toBe(id);
    expect((await restore(backup, { database_id: other })).data.database_id).toBe(other);
  });

  it.each([
    [{ type: 'redis' }, 'it is of postgres, and the database is of redis'],
    [{ version: '16' }, 'it is of version 17, and the database has version 16'],
    [
      { database_user: 'clerk' },
      'its user app and its database app have other names here: restore it into a new database',
    ],
    [
      { database_name: 'store' },
      'its user app and its database app have other names here: restore it into a new database',
    ],
  ])('is refused into a database that is not alike: %j', async (fields, why) => {
    const backup = await aBackup(await aDatabase());
    const other = await aDatabase(fields);
    const refused = [409, `Cannot restore the backup as ${why}`];
    expect(said(await restore(backup, { database_id: other }))).toEqual(refused);
    expect(said(await inPlace(other, backup))).toEqual(refused);
  });

  it.each([
    ['pending', 'it is not completed yet: wait for its end'],
    ['running', 'it is not completed yet: wait for its end'],
    ['verifying', 'it is not completed yet: wait for its end'],
    ['failed', 'it failed: choose one that is completed'],
    ['expired', 'its object was removed: choose one that is completed'],
  ] as const)('is refused of a backup that is %s', async (phase, why) => {
    const id = await aDatabase();
    const backup = await aBackup(id, phase);
    expect(said(await restore(backup))).toEqual([409, `Cannot restore the backup as ${why}`]);
    expect(said(await restore(backup, { new_name: aName() }))).toEqual([409, `Cannot restore the backup as ${why}`]);
    expect(said(await inPlace(id, backup))).toEqual([
      409,
      `Cannot restore the backup as it is ${phase}: choose one that is completed`,
    ]);
  });

  it('knows no backup and no database of another project', async () => {
    const [here, there] = [await aDatabase(), await aDatabase({ project_id: elsewhere })];
    const [backup, far] = [await aBackup(here), await aBackup(there)];
    const unknown = await inPlace(here, far);
    expect([said(unknown), reason(unknown)]).toEqual([
      [404, 'Backup not found in this project'],
      [404, 'backup_id', 'not_found'],
    ]);
    const foreign = await restore(backup, { database_id: there });
    expect([said(foreign), reason(foreign)]).toEqual([
      [404, 'Database not found in this project'],
      [404, 'database_id', 'not_found'],
    ]);
    expect((await inPlace(here, nowhere)).status).toBe(404);
    expect((await restore(nowhere)).status).toBe(404);
    expect(reason(await inPlace(here, 'x')).slice(0, 2)).toEqual([400, 'backup_id']);
  });

  it('is one at a time, also where two ask at once', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    const both = await Promise.all([inPlace(id, backup), restore(backup)]);
    expect(both.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([201, 409]);
    const made = both.find(({ status }) => status === 201)?.data;
    await world.settled();
    const ofDatabase = (one: { database_id: string | null }) => one.database_id === id;
    expect((await owner.get('/volumes?limit=500')).data.filter(ofDatabase)).toHaveLength(2);
    expect((await owner.get('/restores?limit=500')).data.filter(ofDatabase)).toHaveLength(1);
    expect(said(await inPlace(id, backup))).toEqual([
      409,
      `Restore ${made.id} of the database has not ended: wait for it, or cancel it`,
    ]);
    await world.observe('restore', made.id, { phase: 'failed' });
    expect((await inPlace(id, backup)).status).toBe(201);
  });

  it('is for admins of the project', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    const [member, admin] = [await world.user(), await world.user()];
    for (const [user, role] of [
      [member, 'member'],
      [admin, 'admin'],
    ] as const)
      await world.create(
        'member',
        crypto.randomUUID(),
        desiredState('member', { project_id: project, user_id: user.id, role }),
      );
    expect((await member.post(`/databases/${id}/restore`, { backup_id: backup })).status).toBe(403);
    expect((await member.post(`/backups/database/${backup}/restore`, { new_name: aName() })).status).toBe(403);
    const made = await admin.post(`/databases/${id}/restore`, { backup_id: backup });
    expect([made.status, made.data.requested_by]).toEqual([201, admin.id]);
    expect((await member.get(`/restores/${made.data.id}`)).status).toBe(200);
    expect((await member.post(`/restores/${made.data.id}/cancel`)).status).toBe(403);
  });
});

describe('a restore as a new database', () => {
  it('makes one as the backup is of, which waits for what is restored', async () => {
    const fields = {
      version: '16',
      database_user: 'clerk',
      database_name: 'store',
      memory_limit: '512m',
      cpu_limit: '0.5',
    };
    const id = await aDatabase({ ...fields, exposed_port: null });
    const backup = await aBackup(id);
    const name = aName();
    const { data, status } = await restore(backup, { new_name: name });
    expect([status, data.name, data.database_id === id]).toEqual([201, name, false]);
    const made = (await owner.get(`/databases/${data.database_id}`)).data;
    expect(made).toMatchObject({ ...fields, name, type: 'postgres', run: 'stopped', exposed_port: null });
    expect(made.data_volume_id).not.toBe(data.volume_id);
    const [old, own] = [
      (await owner.get(`/databases/${id}/credentials`)).data.password,
      (await owner.get(`/databases/${data.database_id}/credentials`)).data.password,
    ];
    expect(own).not.toBe(old);
  });

  it('is not started before, on the volume that goes', async () => {
    const { data } = await restore(await aBackup(await aDatabase()), { new_name: aName() });
    const path = `/databases/${data.database_id}`;
    expect(said(await owner.post(`${path}/start`))).toEqual([
      409,
      `Restore ${data.id} makes the database, which starts by itself with what is restored: wait for that, or cancel the restore`,
    ]);
    expect((await owner.get(path)).data.run).toBe('stopped');
    await world.observe('restore', data.id, { phase: 'failed' });
    expect((await owner.post(`${path}/start`)).data.run).toBe('running');
  });

  it('needs the database that the backup is of no more', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    await owner.delete(`/databases/${id}`);
    expect((await restore(backup)).status).toBe(409);
    expect((await inPlace(id, backup)).status).toBe(409);
    const made = await restore(backup, { new_name: aName() });
    expect(made.status).toBe(201);
    const orphan = desiredState('backup', {
      ...(await world.repo.get('backup', backup))!.desired,
      of: ofDatabase(nowhere),
    });
    const alone = crypto.randomUUID();
    await world.create('backup', alone, orphan);
    await world.observe('backup', alone, { phase: 'completed' });
    expect(reason(await restore(alone))).toEqual([404, 'database_id', 'not_found']);
    expect((await restore(alone, { new_name: aName() })).status).toBe(201);
  });

  it('is set to what the database of the backup is set to, or was when that is gone', async () => {
    const first = { memory_limit: '1g', cpu_limit: '0.5', parameters: { max_connections: '50' } };
    const id = await aDatabase({ ...first, connection_pooling: true, require_tls: true });
    const backup = await aBackup(id);
    const changed = { memory_limit: '2g', parameters: { max_connections: '60' } };
    expect((await owner.put(`/databases/${id}`, changed)).status).toBe(200);
    const settingsOf = async (from: string) => {
      const { data, status } = await restore(from, { new_name: aName() });
      expect(status).toBe(201);
      return (await owner.get(`/databases/${data.database_id}`)).data;
    };
    expect(await settingsOf(backup)).toMatchObject({ ...changed, cpu_limit: '0.5', require_tls: true });
    const { desired } = (await world.repo.get('backup', backup))!;
    const orphan = desiredState('backup', { ...desired, of: { ...desired.of, id: nowhere } as typeof desired.of });
    const alone = crypto.randomUUID();
    await world.create('backup', alone, orphan);
    await world.observe('backup', alone, { phase: 'completed' });
    expect(await settingsOf(alone)).toMatchObject({ ...first, connection_pooling: true, require_tls: true });
  });

  it('is refused with a name that is taken, with a wrong one, and beside a database', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    const { name } = (await owner.get(`/databases/${id}`)).data;
    expect((await restore(backup, { new_name: name })).status).toBe(409);
    expect(reason(await restore(backup, { new_name: ' of spaces' })).slice(0, 2)).toEqual([400, 'new_name']);
    const both = await restore(backup, { new_name: aName(), database_id: id });
    expect(reason(both)).toEqual([400, 'new_name', 'conflict']);
    expect((await owner.get(`/restores?q=${name}`)).data).toEqual([]);
  });
});

describe('a restore', () => {
  it('holds its backup until it has ended', async () => {
    const database = await aDatabase();
    const backup = await aBackup(database);
    const { data } = await inPlace(database, backup);
    expect(said(await owner.delete(`/backups/${backup}`))).toEqual([
      409,
      `Restore ${data.id} reads the backup: wait for its end, or cancel it`,
    ]);
    await world.observe('restore', data.id, { phase: 'completed' });
    const after = (await owner.get(`/databases/${database}`)).data;
    expect([after.status, JSON.stringify(after.conditions).includes('Restoring')]).toEqual(['running', false]);
    expect((await owner.delete(`/backups/${backup}`)).status).toBe(200);
  });

  it('is cancelled until the database is about to serve from it', async () => {
    const id = await aDatabase();
    const made = (await inPlace(id, await aBackup(id))).data.id;
    const cancel = () => owner.post(`/restores/${made}/cancel`);
    for (const phase of ['pending', 'preparing', 'restoring'] as const) {
      await world.observe('restore', made, { phase });
      expect([phase, (await cancel()).status]).toEqual([phase, 200]);
    }
    expect((await world.repo.get('restore', made))?.desired.cancel_requested).toBe(true);
    for (const [phase, why] of [
      ['switching', 'what was restored is about to take its place: wait for the end'],
      ['completed', 'the restore has ended: the former data is in its former volume'],
      ['failed', 'the restore has ended'],
    ] as const) {
      await world.observe('restore', made, { phase });
      expect(said(await cancel())).toEqual([409, `Cannot cancel as ${why}`]);
    }
  });

  it('is found by its status and its project, and goes with its database', async () => {
    const id = await aDatabase({ project_id: elsewhere });
    const made = (await inPlace(id, await aBackup(id))).data.id;
    const ids = async (query: string) =>
      (await owner.get(`/restores?projectId=${elsewhere}&${query}`)).data.map((one: { id: string }) => one.id);
    expect(await ids('status=pending')).toEqual([made]);
    expect(await ids('status=completed,failed')).toEqual([]);
    await world.observe('restore', made, {
      phase: 'completed',
      former_volume_id: nowhere,
      finished_at: '2030-01-01T00:00:00.000Z',
    });
    expect(await ids('status=completed')).toEqual([made]);
    expect((await owner.get(`/restores/${made}`)).data).toMatchObject({
      former_volume_id: nowhere,
      finished_at: '2030-01-01T00:00:00.000Z',
    });
    expect((await owner.delete(`/restores/${made}`)).status).toBe(404);
  });
});

describe('a restore for trial', () => {
  const verify = (backup: string): Promise<Answer> => owner.post(`/backups/${backup}/verify`);

  it('goes beside what the database serves, once at a time for each backup, and is shown on its backup', async () => {
    const id = await aDatabase();
    const backup = await aBackup(id);
    const before = (await owner.get(`/databases/${id}`)).data;
    const { data, status } = await verify(backup);
    expect([status, data.is_drill, data.backup_id, data.database_id]).toEqual([201, true, backup, id]);
    expect(said(await verify(backup))).toEqual([
      409,
      `Restore ${data.id} tries the backup already: wait for it, or cancel it`,
    ]);
    expect((await owner.get(`/databases/${id}`)).data.data_volume_id).toBe(before.data_volume_id);
    await world.observe('restore', data.id, { phase: 'switching' });
    expect((await owner.get(`/restores/${data.id}`)).data.status).toBe('verifying');
    const at = '2030-01-01T00:00:00.000Z';
    await world.observe('backup', backup, {
      phase: 'completed',
      proven_at: at,
      verification: { status: 'proven', at, restore_id: data.id },
    });
    expect((await owner.get(`/backups/${backup}`)).data).toMatchObject({
      proven_at: at,
      verification: { status: 'proven', at, restore_id: data.id, error: null },
    });
  });

  it('is one of several that are asked for at once, and another one after its end', async () => {
    const backup = await aBackup(await aDatabase());
    const all = await Promise.all(Array.from({ length: 10 }, () => verify(backup)));
    const [made, ...more] = all.filter(({ status }) => status === 201);
    expect([more, all.filter(({ status }) => status === 409).length]).toEqual([[], 9]);
    // two replicas that know the same make the same one, so that one of them finds that of the other
    expect(made?.data.id).toBe(uuidv5(backup, 'verify/'));
    await world.observe('restore', made?.data.id, { phase: 'failed' });
    expect((await verify(backup)).status).toBe(201);
  });

  it('ends for what a user asks for, and keeps no backup from being deleted', async () => {
    const id = await aDatabase();
    const [backup, other] = [await aBackup(id), await aBackup(id)];
    const drill = (await verify(backup)).data.id;
    expect((await inPlace(id, other)).status).toBe(201);
    expect((await world.repo.get('restore', drill))?.desired.cancel_requested).toBe(true);
    expect((await owner.delete(`/backups/${backup}`)).status).toBe(200);
  });

  it('is refused of what cannot be read, and beside what is gone', async () => {
    const id = await aDatabase();
    const failed = await aBackup(id, 'failed');
    expect(said(await verify(failed))).toEqual([
      409,
      'Cannot restore the backup as it failed: choose one that is completed',
    ]);
    const backup = await aBackup(id);
    await owner.delete(`/databases/${id}`);
    expect(said(await verify(backup))).toEqual([
      409,
      'The database of the backup is gone: restore it as a new one by new_name',
    ]);
  });
});
