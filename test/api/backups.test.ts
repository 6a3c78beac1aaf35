import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { desiredState } from '../harness/states.ts';

const unlimited = { perMinute: 0, burst: 1 };
const nowhere = '00000000-0000-4000-8000-000000000000';

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
let destination: string;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
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

const aDestination = async (fields: object = {}): Promise<string> =>
  (
    await owner.post('/settings/backup-destinations', {
      name: aName(),
      provider: 'custom',
      endpoint: 'https://s3.example.test',
      bucket: 'backups',
      access_key: 'AKIDOFTHETEST',
      secret_key: 'sesame',
      ...fields,
    })
  ).data.id;

const backUp = (id: string, fields: object = {}): Promise<Answer> => owner.post(`/databases/${id}/backups`, fields);

async function completed(id: string): Promise<void> {
  const finished_at = '2030-01-01T00:00:00.000Z';
  await world.observe('backup', id, { phase: 'completed', size_bytes: 4, finished_at });
}

const schedule = (database_id: string, fields: object = {}): Promise<Answer> =>
  owner.post('/backup-schedules', { database_id, cron_expression: '30 3 * * *', ...fields });

describe('where a backup goes', () => {
  it('is that of its schedule or the only one; it is refused without any, and with several of which none is named', async () => {
    const id = await aDatabase();
    const none = await backUp(id);
    expect(reason(none)).toEqual([400, 'destination_id', 'required']);
    expect(none.body.error?.message).toContain('there is none yet: an admin creates one');
    expect(reason(await schedule(id))).toEqual([400, 'destination_id', 'required']);

    destination = await aDestination();
    const only = await backUp(id);
    expect([only.status, only.data.destination_id]).toEqual([201, destination]);
    expect((await schedule(id)).data.destination_id).toBe(destination);

    const second = await aDestination();
    const bySchedule = await backUp(id);
    expect([bySchedule.status, bySchedule.data.destination_id]).toEqual([201, destination]);
    const several = await backUp(await aDatabase());
    expect(reason(several)).toEqual([400, 'destination_id', 'required']);
    expect(several.body.error?.message).toContain('there are 2: name one');
    expect((await backUp(id, { destination_id: second })).data.destination_id).toBe(second);
    expect((await backUp(id, { destination_id: nowhere })).status).toBe(404);
  });
});

describe('a new backup', () => {
  const to = () => ({ destination_id: destination });

  it('says what it is of, who asked for it, and is in the audit log', async () => {
    const id = await aDatabase({ version: '16', database_user: 'clerk', database_name: 'store' });
    const of = (await owner.get(`/databases/${id}`)).data;
    const { data, status } = await backUp(id, { ...to(), labels: { before: 'upgrade' } });
    expect(status).toBe(201);
    expect(data).toMatchObject({
      project_id: project,
      environment_id: of.environment_id,
      kind: 'database',
      resource_id: id,
      name: of.name,
      type: 'postgres',
      version: '16',
      schedule_id: null,
      method: 'logical',
      trigger: 'manual',
      status: 'pending',
      progress: null,
      size_bytes: null,
      checksum_sha256: null,
      pinned: false,
      expires_at: null,
      verified_at: null,
      completed_at: null,
      error: null,
      labels: { before: 'upgrade' },
    });
    expect(data.requested_by).toBe((await owner.get('/auth/me')).data.id);
    expect(data.object_key).toBe(`default/${project}/${id}/backups/${data.id}/dump.zst`);
    const records = (await owner.get('/audit?limit=500')).data;
    expect(records).toContainEqual(expect.objectContaining({ route: 'POST /databases/:id/backups', result: 'ok' }));
    expect(JSON.stringify(records)).toContain(data.id);
  });

  it('is refused of a database that is stopped, and of an engine without backups', async () => {
    const stopped = await aDatabase();
    await owner.post(`/databases/${stopped}/stop`);
    expect(said(await backUp(stopped, to()))).toEqual([
      409,
      'Cannot back up the database as it is being stopped: start it first',
    ]);
    await world.observe('database', stopped, { phase: 'stopped' });
    expect(said(await backUp(stopped, to()))).toEqual([
      409,
      'Cannot back up the database as it is stopped: start it first',
    ]);
    const mongodb = await aDatabase({ type: 'mongodb' });
    const unsupported = [409, 'Backups of MongoDB are not supported yet: dump it by its own tools'];
    expect(said(await backUp(mongodb, to()))).toEqual(unsupported);
    expect(said(await schedule(mongodb, to()))).toEqual(unsupported);
  });

  it.each([
    [{ expires_at: 'tomorrow' }, 'expires_at'],
    [{ destination_id: 'x' }, 'destination_id'],
    [{ pinned: true }, 'pinned'],
    [{ method: 'physical' }, 'method'],
  ])('is refused with the field: %j', async (fields, field) => {
    const refused = await backUp(await aDatabase(), { ...to(), ...fields });
    expect(reason(refused).slice(0, 2)).toEqual([400, field]);
  });
});

describe('a backup', () => {
  it('is pinned, and its end is set and taken back', async () => {
    const { id } = (await backUp(await aDatabase(), { destination_id: destination })).data;
    await completed(id);
    const expires_at = '2031-01-01T00:00:00.000Z';
    const changed = await owner.put(`/backups/${id}`, { pinned: true, expires_at, labels: { keep: 'yes' } });
    expect(changed.data).toMatchObject({ pinned: true, expires_at, labels: { keep: 'yes' } });
    const alone = await owner.put(`/backups/${id}`, { pinned: false });
    expect(alone.data).toMatchObject({ pinned: false, expires_at, labels: { keep: 'yes' } });
    expect((await owner.put(`/backups/${id}`, { expires_at: null })).data.expires_at).toBeNull();
    expect(reason(await owner.put(`/backups/${id}`, { expires_at: 'x' })).slice(0, 2)).toEqual([400, 'expires_at']);
  });

  it.each(['failed', 'expired'] as const)('that is %s is not changed, as it has nothing', async (phase) => {
    const { id } = (await backUp(await aDatabase(), { destination_id: destination })).data;
    await world.observe('backup', id, { phase });
    expect(said(await owner.put(`/backups/${id}`, { pinned: true }))).toEqual([
      409,
      'Cannot change the backup as there is nothing in the bucket any more',
    ]);
  });

  it('that is being removed is neither pinned nor restored', async () => {
    const database = await aDatabase();
    const { id } = (await backUp(database, { destination_id: destination })).data;
    await world.observe('backup', id, { phase: 'completed', expiring: true });
    expect((await owner.get(`/backups/${id}`)).data.status).toBe('expired');
    expect(said(await owner.put(`/backups/${id}`, { pinned: true }))).toEqual([
      409,
      'Cannot change the backup as there is nothing in the bucket any more',
    ]);
    const removed = 'Cannot restore the backup as its object was removed: choose one that is completed';
    for (const path of [`/backups/database/${id}/restore`, `/backups/${id}/verify`])
      expect(said(await owner.post(path, {}))).toEqual([409, removed]);
    expect(said(await owner.post(`/databases/${database}/restore`, { backup_id: id }))).toEqual([
      409,
      'Cannot restore the backup as it is expired: choose one that is completed',
    ]);
  });

  it('is cancelled until it has ended', async () => {
    const { id } = (await backUp(await aDatabase(), { destination_id: destination })).data;
    for (let times = 0; times < 2; times++) expect((await owner.post(`/backups/${id}/cancel`)).status).toBe(200);
    expect((await world.repo.get('backup', id))?.desired.cancel_requested).toBe(true);
    for (const phase of ['completed', 'failed', 'expired'] as const) {
      await world.observe('backup', id, { phase });
      expect(said(await owner.post(`/backups/${id}/cancel`))).toEqual([
        409,
        'Cannot cancel as the backup has ended: delete it if it is not wanted',
      ]);
    }
  });

  it('is found by its status, its project and its database', async () => {
    const [one, other] = [await aDatabase(), await aDatabase()];
    const place = { default_server_id: server };
    const elsewhere = (await owner.post('/projects', { name: aName(), ...place })).data.id;
    const third = await aDatabase({ project_id: elsewhere });
    const made = async (id: string) => (await backUp(id, { destination_id: destination })).data.id as string;
    const [first, second, far] = [await made(one), await made(other), await made(third)];
    await completed(first);
    const ids = async (path: string) => (await owner.get(path)).data.map(({ id }: { id: string }) => id);
    expect(await ids(`/databases/${one}/backups`)).toEqual([first]);
    expect(await ids(`/databases/${one}/backups?status=pending`)).toEqual([]);
    expect(await ids(`/databases/${one}/backups?status=pending,completed`)).toEqual([first]);
    expect(await ids(`/backups?projectId=${elsewhere}`)).toEqual([far]);
    const inShop = await ids(`/backups?projectId=${project}&status=pending&limit=500`);
    expect([inShop.includes(second), inShop.includes(first), inShop.includes(far)]).toEqual([true, false, false]);
    expect((await owner.get('/backups?status=nonsense')).status).toBe(400);
    expect((await owner.get(`/databases/${nowhere}/backups`)).status).toBe(404);
  });

  it('is asked for by members, seen by viewers, and deleted by admins', async () => {
    const id = await aDatabase();
    const [viewer, member, stranger] = [await world.user(), await world.user(), await world.user()];
    for (const [user, role] of [
      [viewer, 'viewer'],
      [member, 'member'],
    ] as const)
      await world.create(
        'member',
        crypto.randomUUID(),
        desiredState('member', { project_id: project, user_id: user.id, role }),
      );
    const to = { destination_id: destination };
    expect((await viewer.post(`/databases/${id}/backups`, to)).status).toBe(403);
    expect((await stranger.post(`/databases/${id}/backups`, to)).status).toBe(403);
    const made = await member.post(`/databases/${id}/backups`, to);
    expect([made.status, made.data.requested_by]).toEqual([201, member.id]);
    const path = `/backups/${made.data.id}`;
    expect([(await viewer.get(path)).status, (await stranger.get(path)).status]).toEqual([200, 403]);
    expect([(await member.delete(path)).status, (await owner.delete(path)).status]).toEqual([403, 200]);
    expect((await stranger.get('/backups')).data).toEqual([]);
  });

  it('stays when its database is deleted, and says what it was of', async () => {
    const id = await aDatabase();
    const { name } = (await owner.get(`/databases/${id}`)).data;
    const backup = (await backUp(id, { destination_id: destination })).data.id;
    await completed(backup);
    expect((await owner.delete(`/databases/${id}`)).status).toBe(200);
    const { data } = await owner.get(`/backups/${backup}`);
    expect(data).toMatchObject({ status: 'completed', name, resource_id: id });
  });

  it('holds its destination: that is neither deleted nor moved', async () => {
    const bucket = await aDestination();
    expect((await backUp(await aDatabase(), { destination_id: bucket })).status).toBe(201);
    const path = `/settings/backup-destinations/${bucket}`;
    expect(said(await owner.delete(path))).toEqual([
      409,
      'The backup destination is used by 1 backup and cannot be deleted',
    ]);
    for (const moved of [{ bucket: 'elsewhere' }, { path_prefix: 'below' }])
      expect(said(await owner.put(path, moved))[0]).toBe(409);
    expect((await owner.put(path, { name: aName() })).status).toBe(200);
  });
});

describe('a backup schedule', () => {
  const to = () => ({ destination_id: destination });

  it('keeps 7 backups in UTC unless told otherwise, and is changed field by field', async () => {
    const id = await aDatabase();
    const { data, status } = await schedule(id, to());
    expect(status).toBe(201);
    expect(data).toMatchObject({
      project_id: project,
      database_id: id,
      name: (await owner.get(`/databases/${id}`)).data.name,
      cron_expression: '30 3 * * *',
      timezone: 'UTC',
      retention_count: 7,
      is_paused: false,
      status: 'active',
      missed: 0,
      last_success_at: null,
    });
    const path = `/backup-schedules/${data.id}`;
    const fields = { cron_expression: '@hourly', timezone: 'Europe/Berlin', retention_count: 365, is_paused: true };
    expect((await owner.put(path, fields)).data).toMatchObject({ ...fields, status: 'paused' });
    expect((await owner.put(path, { is_paused: false })).data).toMatchObject({
      ...fields,
      is_paused: false,
      status: 'active',
    });
    expect((await owner.put(path, { destination_id: nowhere })).status).toBe(404);
    // what it backs up is read-only, and may be sent back
    const other = await owner.put(path, { database_id: await aDatabase() });
    expect([other.status, other.data.database_id]).toEqual([200, id]);
  });

  it.each([
    [{ cron_expression: 'never' }, 'cron_expression'],
    [{ cron_expression: '* * * * * *' }, 'cron_expression'],
    [{ cron_expression: '61 3 * * *' }, 'cron_expression'],
    [{ cron_expression: '0 0 30 2 *' }, 'cron_expression'],
    [{ cron_expression: '' }, 'cron_expression'],
    [{ cron_expression: `0 ${'1,'.repeat(60)}1 * * *` }, 'cron_expression'],
    [{ timezone: 'Europe/Nowhere' }, 'timezone'],
    [{ timezone: '' }, 'timezone'],
    [{ retention_count: 0 }, 'retention_count'],
    [{ retention_count: 366 }, 'retention_count'],
    [{ retention_count: 1.5 }, 'retention_count'],
    [{ verify_every: 7 }, 'verify_every'],
    [{ verify_every: '0d' }, 'verify_every'],
    [{ verify_every: '366d' }, 'verify_every'],
    [{ verify_every: '6h' }, 'verify_every'],
  ])('is refused with the field, made and changed: %j', async (fields, field) => {
    const id = await aDatabase();
    expect(reason(await schedule(id, { ...to(), ...fields })).slice(0, 2)).toEqual([400, field]);
    const made = (await schedule(id, to())).data;
    expect(reason(await owner.put(`/backup-schedules/${made.id}`, fields)).slice(0, 2)).toEqual([400, field]);
    expect((await owner.get(`/backup-schedules/${made.id}`)).data.resource_version).toBe(made.resource_version);
  });

  it('restores none for trial unless told how often', async () => {
    const never = { verify_every: null, next_verify_at: null, verification: null };
    const { data } = await schedule(await aDatabase(), to());
    expect(data).toMatchObject(never);
    const path = `/backup-schedules/${data.id}`;
    expect((await owner.put(path, { verify_every: '7d' })).data).toMatchObject({ ...never, verify_every: '7d' });
    const error = { code: 'restore_failed', message: 'It ended with 1' };
    const result = { backup_id: nowhere, status: 'not_proven' as const, at: '2030-01-01T00:10:00.000Z', error };
    const drills = [{ of: nowhere, begun_at: '2030-01-01T00:00:00.000Z', result }];
    await world.observe('backup_schedule', data.id, {
      phase: 'active',
      handled_until: '2030-01-01T00:00:00.000Z',
      missed: 0,
      drills,
    });
    expect((await owner.get(path)).data).toMatchObject({
      next_verify_at: '2030-01-08T00:00:00.000Z',
      verification: result,
    });
    expect((await owner.put(path, { verify_every: null })).data).toMatchObject({
      verify_every: null,
      next_verify_at: null,
    });
    expect((await schedule(await aDatabase(), { ...to(), verify_every: '2w' })).data.verify_every).toBe('2w');
  });

  it('says when a date never comes, and what a time zone looks like', async () => {
    const id = await aDatabase();
    expect(said(await schedule(id, { ...to(), cron_expression: '0 0 30 2 *' }))[1]).toContain('would never fire');
    expect(said(await schedule(id, { ...to(), timezone: 'CEST2' }))[1]).toContain('such as Europe/Berlin or UTC');
  });

  it('makes a backup now, which is of the schedule; its database must run', async () => {
    const id = await aDatabase();
    const made = (await schedule(id, to())).data.id;
    const run = await owner.post(`/backup-schedules/${made}/run`);
    expect([run.status, run.data.schedule_id, run.data.trigger, run.data.resource_id]).toEqual([
      201,
      made,
      'manual',
      id,
    ]);
    await owner.post(`/databases/${id}/stop`);
    const stopped = await owner.post(`/backup-schedules/${made}/run`);
    expect(said(stopped)).toEqual([409, 'Cannot back up the database as it is being stopped: start it first']);
  });

  it('holds its destination, goes, and leaves its backups', async () => {
    const bucket = await aDestination();
    const id = await aDatabase();
    const made = (await schedule(id, { destination_id: bucket })).data.id;
    expect(said(await owner.delete(`/settings/backup-destinations/${bucket}`))[0]).toBe(409);
    const backup = (await owner.post(`/backup-schedules/${made}/run`)).data.id;
    await completed(backup);
    expect((await owner.delete(`/backup-schedules/${made}`)).status).toBe(204);
    expect((await owner.get(`/backups/${backup}`)).data.status).toBe('completed');
  });
});
