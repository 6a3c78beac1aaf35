import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRepository } from '../../store/repo.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { desiredState, ofDatabase } from '../harness/states.ts';

const unlimited = { perMinute: 0, burst: 1 };
const [earliest, within, latest] = ['2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z', '2026-01-03T00:00:00.000Z'];
const segment = (n: number): string => `00000001000000000000000${n}`;

let world: ApiWorld;
let owner: Client;
let project: string;
let destination: string;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  const server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  const made = await owner.post('/settings/backup-destinations', {
    name: 'nightly',
    provider: 'custom',
    endpoint: 'https://s3.example.test',
    bucket: 'backups',
    access_key: 'AKIDOFTHETEST',
    secret_key: 'sesame',
  });
  destination = made.data.id;
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

const create = (fields: object): Promise<Answer> =>
  owner.post('/databases', { project_id: project, name: aName(), type: 'postgres', ...fields });

async function aDatabase(fields: object = {}): Promise<string> {
  const { data, status } = await create(fields);
  expect(status).toBe(201);
  await world.observe('database', data.id, { phase: 'running' });
  return data.id;
}

async function aMember() {
  const member = await world.user();
  const role = { project_id: project, user_id: member.id, role: 'member' as const };
  await world.create('member', randomUUID(), desiredState('member', role));
  return member;
}

/** A database with an archive and a base backup, as their controllers would have made them. */
async function archived(): Promise<string> {
  const id = await aDatabase({ backup_mode: 'pitr' });
  const repo = openRepository(world.store, 'default', world.clock);
  const { archive, environment_id, server_id } = (await repo.get('database', id))?.desired ?? {};
  const of = {
    project_id: project,
    place: { environment_id: environment_id ?? '', server_id: server_id ?? '' },
    destination_id: destination,
  };
  const base = randomUUID();
  const unit = repo.begin();
  unit.create('wal_archive', archive?.id ?? '', desiredState('wal_archive', { ...of, database_id: id }));
  const how = { of: ofDatabase(id), method: 'physical' as const, archive_id: archive?.id ?? '' };
  unit.create('backup', base, desiredState('backup', { ...of, ...how }));
  await commit(unit);
  const shown = { until: latest, until_segment: segment(9), last_segment: segment(9), sent_at: latest };
  await world.observe('wal_archive', archive?.id ?? '', { phase: 'archiving', gaps: [], ...shown });
  const log = { first_segment: segment(2), last_segment: segment(3), stopped_at: earliest };
  await world.observe('backup', base, { phase: 'completed', log });
  return id;
}

describe('the way in which a database is backed up', () => {
  it('can be chosen when it is made, and changed in both directions', async () => {
    const { data } = await create({ backup_mode: 'pitr', backup_schedule: '0 */6 * * *', backup_retention_count: 3 });
    const chosen = {
      backup_mode: 'pitr',
      pitr_enabled: true,
      backup_destination_id: destination,
      backup_schedule: '0 */6 * * *',
      backup_retention_count: 3,
    };
    expect(data).toMatchObject(chosen);
    const off = await owner.put(`/databases/${data.id}`, { pitr_enabled: false });
    const none = { backup_mode: 'none', pitr_enabled: false, backup_destination_id: null, backup_schedule: null };
    expect(off.data).toMatchObject(none);
    const on = await owner.put(`/databases/${data.id}`, { backup_mode: 'pitr' });
    expect(on.data).toMatchObject({ ...chosen, backup_schedule: null, backup_retention_count: 7 });
  });

  it('begins another archive each time that it is turned on, and none for other changes', async () => {
    const id = await aDatabase({ backup_mode: 'pitr' });
    const archive = async () => (await world.repo.get('database', id))?.desired.archive?.id;
    const first = await archive();
    await owner.put(`/databases/${id}`, { backup_retention_count: 2 });
    expect(await archive()).toBe(first);
    await owner.put(`/databases/${id}`, { backup_mode: 'none' });
    expect(await archive()).toBeUndefined();
    await owner.put(`/databases/${id}`, { backup_mode: 'pitr' });
    expect([undefined, first]).not.toContain(await archive());
  });

  it('is chosen by those who may make schedules, for a new database and for one that is there', async () => {
    const member = await aMember();
    const scheduled = { backup_mode: 'scheduled', backup_schedule: '*/5 * * * *' };
    const id = await aDatabase();
    for (const body of [scheduled, { backup_mode: 'pitr' }, { pitr_enabled: true }]) {
      const of = { project_id: project, name: aName(), type: 'postgres' };
      for (const answer of [
        await member.post('/databases', { ...of, ...body }),
        await member.put(`/databases/${id}`, body),
      ])
        expect([body, said(answer)]).toEqual([
          body,
          [
            403,
            expect.stringMatching(/^Not allowed: your role is project member, and this takes at least project admin/),
          ],
        ]);
      expect((await member.post('/databases', { ...of, backup_mode: 'none' })).status).toBe(201);
    }
    expect((await owner.get(`/databases/${id}`)).data.backup_mode).toBe('none');
    // an answer that is sent back changes nothing
    expect((await member.put(`/databases/${id}`, { backup_mode: 'none', display_name: 'Orders' })).status).toBe(200);
  });

  it('that archives is changed by those who may make schedules, as fewer base backups remove what is there', async () => {
    const id = await aDatabase({ backup_mode: 'pitr', backup_retention_count: 3 });
    const member = await aMember();
    const change = async (body: object) => (await member.put(`/databases/${id}`, body)).status;
    expect(await change({ backup_mode: 'pitr', backup_retention_count: 3 })).toBe(200);
    for (const body of [{ backup_retention_count: 1 }, { backup_mode: 'none' }, { pitr_enabled: false }])
      expect([body, await change(body)]).toEqual([body, 403]);
  });

  it('may be a schedule, which is made with it', async () => {
    const id = await aDatabase({ backup_mode: 'scheduled', backup_schedule: '30 3 * * *' });
    const { data } = await owner.get(`/databases/${id}`);
    expect(data).toMatchObject({ backup_mode: 'scheduled', pitr_enabled: false, backup_schedule: '30 3 * * *' });
    expect(said(await owner.put(`/databases/${id}`, { backup_mode: 'none' }))).toEqual([
      409,
      expect.stringMatching(/^The database has backup schedule \S+: delete it, or pause it$/),
    ]);
  });

  it('that is a schedule shows it at once, and changes it where the times, the destination or the count differ', async () => {
    const asked = { backup_mode: 'scheduled', backup_schedule: '30 3 * * *', backup_retention_count: 3 };
    const { data } = await create(asked);
    expect(data).toMatchObject({ ...asked, backup_destination_id: destination });
    const at = `/databases/${data.id}`;
    const schedules = async () =>
      (await owner.get('/backup-schedules')).data.filter((it: { database_id: string }) => it.database_id === data.id);
    const [first] = await schedules();
    const changed = { backup_mode: 'scheduled', backup_schedule: '0 4 * * *', backup_retention_count: 5 };
    expect((await owner.put(at, changed)).data).toMatchObject(changed);
    expect(await schedules()).toMatchObject([{ id: first.id, cron_expression: '0 4 * * *', retention_count: 5 }]);
    expect(reason(await owner.put(at, { ...changed, backup_schedule: '61 * * * *' }))).toEqual([
      400,
      'backup_schedule',
      'invalid',
    ]);
    const member = await aMember();
    expect((await member.put(at, changed)).status).toBe(200);
    expect((await member.put(at, { ...changed, backup_retention_count: 1 })).status).toBe(403);
  });

  it.each<[string, object, unknown[]]>([
    ['another engine', { type: 'redis', backup_mode: 'pitr' }, [400, 'backup_mode', 'unsupported']],
    ['a contradiction', { backup_mode: 'pitr', pitr_enabled: false }, [400, 'pitr_enabled', 'conflict']],
    [
      'times that are none',
      { backup_mode: 'pitr', backup_schedule: '61 * * * *' },
      [400, 'backup_schedule', 'invalid'],
    ],
    ['a schedule without times', { backup_mode: 'scheduled' }, [400, 'backup_schedule', 'required']],
    ['details of nothing', { backup_retention_count: 3 }, [400, 'backup_retention_count', 'unused']],
  ])('is refused for %s', async (_, fields, wanted) => {
    expect(reason(await create(fields))).toEqual(wanted);
  });
});

describe('a recovery', () => {
  it('is to an instant of the window, both ends included', async () => {
    const id = await archived();
    const { data } = await owner.get(`/databases/${id}/recovery-window`);
    const span = { earliest_time: earliest, latest_time: latest };
    expect(data).toEqual({ available: true, ...span, last_wal_at: latest, gaps: [], windows: [span] });
    for (const target_time of [earliest, within, latest]) {
      const made = await owner.post(`/databases/${id}/pitr-clone`, { target_time, new_name: aName() });
      expect([made.status, made.data.target_time]).toEqual([201, target_time]);
      const copy = (await owner.get(`/databases/${made.data.database_id}`)).data;
      expect(copy).toMatchObject({ backup_mode: 'none', run: 'stopped' });
    }
    const message = `Must be within the recovery window: ${earliest} to ${latest}`;
    for (const target_time of ['2025-12-31T23:59:59.000Z', '2026-01-03T00:00:01.000Z'])
      for (const [verb, fields] of [
        ['pitr', {}],
        ['pitr-clone', { new_name: aName() }],
      ] as const) {
        const answer = await owner.post(`/databases/${id}/${verb}`, { target_time, ...fields });
        expect(reason(answer)).toEqual([400, 'target_time', 'outside_window']);
        expect(JSON.stringify(answer.body.error)).toContain(message);
      }
  });

  it('is one at a time, and is switched to when it is ready and not before', async () => {
    const id = await archived();
    const pitr = (): Promise<Answer> => owner.post(`/databases/${id}/pitr`, { target_time: within });
    const switchTo = (): Promise<Answer> => owner.post(`/databases/${id}/switch`, {});
    expect((await switchTo()).status).toBe(409);
    const { data, status } = await pitr();
    expect([status, data.target_time, data.internal_host]).toEqual([201, within, null]);
    expect(said(await pitr())).toEqual([
      409,
      `Restore ${data.id} of the database has not ended: wait for it, or cancel it`,
    ]);
    expect(said(await switchTo())).toEqual([
      409,
      `Restore ${data.id} is not ready to be switched to: wait until it is`,
    ]);
    await world.observe('restore', data.id, { phase: 'ready_to_switch' });
    const { internal_id: name } = (await owner.get(`/databases/${id}`)).data;
    expect((await owner.get(`/restores/${data.id}`)).data.internal_host).toBe(`${name}-restore`);
    expect((await switchTo()).status).toBe(200);
    expect((await world.repo.get('restore', data.id))?.desired.switch_requested).toBe(true);
  });

  it('is switched to, for one who waits, once nothing of it is under way', async () => {
    const id = await archived();
    const { data } = await owner.post(`/databases/${id}/pitr`, { target_time: within });
    await world.observe('restore', data.id, { phase: 'ready_to_switch' });
    let isAnswered = false;
    const answered = owner.post(`/databases/${id}/switch?wait=20`, {}).finally(() => (isAnswered = true));
    const isRequested = async () => (await world.repo.get('restore', data.id))?.desired.switch_requested;
    await expect.poll(isRequested).toBe(true);
    await world.observe('restore', data.id, { phase: 'switching' });
    const { data_volume_id: former } = (await owner.get(`/databases/${id}`)).data;
    expect(isAnswered).toBe(false);
    await world.repo.change('database', id, (draft) => void (draft.data_volume_id = data.volume_id));
    await world.observe('restore', data.id, { phase: 'completed', former_volume_id: former });
    expect((await owner.get(`/databases/${id}`)).data.data_volume_id).toBe(data.volume_id);
    expect(isAnswered).toBe(false);
    await world.observe('database', id, { phase: 'running' });
    expect(await answered).toMatchObject({ status: 200, data: { data_volume_id: data.volume_id, status: 'running' } });
  });

  it('is not possible without an archive', async () => {
    const id = await aDatabase();
    const { data } = await owner.get(`/databases/${id}/recovery-window`);
    expect(data).toMatchObject({ available: false, earliest_time: null, latest_time: null, windows: [] });
    const answer = await owner.post(`/databases/${id}/pitr`, { target_time: within });
    expect(reason(answer)).toEqual([400, 'target_time', 'outside_window']);
  });
});

describe('the way back to a former volume', () => {
  it.each([
    ['after a restore that was completed', { phase: 'completed' as const }],
    [
      'after one that went back, as clients may have written to it',
      { phase: 'failed' as const, goes_back: true as const },
    ],
    ['after one that was held and could not be switched to', { phase: 'failed' as const, held_since: latest }],
  ])('changes the pointer, keeps what was served for a week, and begins another archive, %s', async (_, observed) => {
    const id = await archived();
    const former = randomUUID();
    const repo = openRepository(world.store, 'default', world.clock);
    const before = (await repo.get('database', id))!.desired;
    const place = { project_id: project, environment_id: before.environment_id, server_id: before.server_id };
    const unit = repo.begin();
    unit.create('volume', former, desiredState('volume', { ...place, database_id: id, expires_at: latest }));
    const of = { kind: 'database' as const, id };
    const made = { project_id: project, of, volume_id: former, switch_requested: true };
    const earlier = randomUUID();
    unit.create('restore', earlier, desiredState('restore', made));
    await commit(unit);
    await world.observe('restore', earlier, observed);
    const { status, data } = await owner.post(`/databases/${id}/switch`, { volume_id: former });
    expect([status, data.data_volume_id]).toEqual([200, former]);
    expect((await repo.get('database', id))?.desired.archive?.id).not.toBe(before.archive?.id);
    expect((await repo.get('volume', former))?.desired.expires_at).toBeUndefined();
    expect((await repo.get('volume', before.data_volume_id))?.desired.expires_at).toBeDefined();
    const after = await repo.get('database', id);
    expect(await owner.post(`/databases/${id}/switch`, { volume_id: former })).toMatchObject({ status: 200, data });
    expect(await repo.get('database', id)).toEqual(after);
  });

  it('is open where the volume that it serves is gone', async () => {
    const id = await archived();
    const repo = openRepository(world.store, 'default', world.clock);
    const { environment_id, server_id, data_volume_id } = (await repo.get('database', id))!.desired;
    const former = randomUUID();
    const unit = repo.begin();
    const of = { project_id: project, environment_id, server_id, database_id: id };
    unit.create('volume', former, desiredState('volume', { ...of, expires_at: latest }));
    unit.requestDelete((await repo.get('volume', data_volume_id))!);
    await commit(unit);
    await world.settled();
    const { status, data } = await owner.post(`/databases/${id}/switch`, { volume_id: former });
    expect([status, data?.data_volume_id]).toEqual([200, former]);
    expect((await repo.get('volume', data_volume_id))?.desired.expires_at).toBeUndefined();
  });

  it.each([
    ['of a drill', { is_drill: true as const }, 'completed', true],
    ['of a restore that failed', {}, 'failed', true],
    ['of an attempt that was lost', undefined, 'failed', false],
  ] as const)('leads to no volume %s', async (_, fields, phase, isMade) => {
    const id = await archived();
    const [scratch, by] = [randomUUID(), randomUUID()];
    const repo = openRepository(world.store, 'default', world.clock);
    const { environment_id, server_id, data_volume_id } = (await repo.get('database', id))!.desired;
    const unit = repo.begin();
    const of = { project_id: project, environment_id, server_id, database_id: id };
    unit.create('volume', scratch, desiredState('volume', { ...of, ...(isMade && { expires_at: latest }) }));
    const made = { project_id: project, of: { kind: 'database' as const, id } };
    if (isMade) unit.create('restore', by, desiredState('restore', { ...made, volume_id: scratch, ...fields }));
    await commit(unit);
    await world.settled();
    if (isMade) await world.observe('restore', by, { phase });
    expect(said(await owner.post(`/databases/${id}/switch`, { volume_id: scratch }))).toEqual([
      409,
      isMade
        ? `Restore ${by} makes this volume: it is no former one`
        : 'The database never served from this volume: name a former one, which has expires_at',
    ]);
    expect((await repo.get('database', id))?.desired.data_volume_id).toBe(data_volume_id);
  });
});
