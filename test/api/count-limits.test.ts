import { afterEach, describe, expect, it } from 'vitest';
import { countLimits } from '../../api/rights/count-limits.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld | undefined;

afterEach(async () => {
  await world?.[Symbol.asyncDispose]();
  expect(world?.faults ?? []).toEqual([]);
  world = undefined;
});

/** Puts so many objects into the store as `make` says, several per transaction. */
async function fill(
  into: ApiWorld,
  count: number,
  make: (unit: ReturnType<ApiWorld['repo']['begin']>, n: number) => void,
): Promise<void> {
  for (let n = 0; n < count;) {
    const unit = into.repo.begin();
    for (let m = 0; m < 10 && n < count; m++, n++) make(unit, n);
    expect((await unit.commit()).committed).toBe(true);
  }
  await into.settled();
}

const full = expect.objectContaining({ reason: 'limit' });

describe('what users make is bounded', () => {
  it('for the environments of a project', async () => {
    world = await startApi();
    const owner = await world.owner();
    const { project } = await world.place(owner);
    await fill(world, countLimits.environmentsPerProject - 2, (unit, n) =>
      unit.create('environment', crypto.randomUUID(), { project_id: project, name: `e${n}`, type: 'test' }),
    );
    const make = (name: string) => owner.post(`/projects/${project}/environments`, { name });
    expect((await make('last')).status).toBe(201);
    const refused = await make('too many');
    expect(refused.status).toBe(409);
    expect(refused.body.error).toMatchObject({
      message: `The project has ${countLimits.environmentsPerProject} environments already and at most ${countLimits.environmentsPerProject} are allowed: delete one that is not needed`,
      details: [full],
    });
  });

  it('for the projects and servers of a tenant', async () => {
    world = await startApi();
    const owner = await world.owner();
    const { id: owner_id } = (await owner.get('/auth/me')).data;
    await fill(world, countLimits.projectsPerTenant, (unit, n) =>
      unit.create(
        'project',
        crypto.randomUUID(),
        desiredState('project', {
          name: `p${n}`,
          owner_id,
          default_environment_id: crypto.randomUUID(),
        }),
      ),
    );
    expect((await owner.post('/projects', { name: 'too many' })).status).toBe(409);
    await fill(world, countLimits.serversPerTenant, (unit, n) =>
      unit.create(
        'server',
        crypto.randomUUID(),
        desiredState('server', {
          name: `s${n}`,
        }),
      ),
    );
    expect((await owner.post('/servers', { name: 'too many' })).status).toBe(409);
  });

  it('for the service keys of a user, whose others still may make some', async () => {
    world = await startApi();
    const owner = await world.owner();
    for (let n = 0; n < countLimits.serviceKeysPerUser; n++)
      expect((await owner.post('/settings/service-keys', { name: `k${n}` })).status).toBe(201);
    const refused = await owner.post('/settings/service-keys', { name: 'k' });
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toEqual([full]);
    expect((await (await world.user()).post('/settings/service-keys', { name: 'k' })).status).toBe(201);
  });

  it('for the answers that are kept for one caller, and a repeated request is answered all the same', async () => {
    world = await startApi();
    const owner = await world.owner();
    const other = await world.user();
    const headers = (key: string) => ({ 'idempotency-key': key });
    const first = await owner.post('/projects', { name: 'first' }, headers('k'));
    expect(first.status).toBe(201);
    const prefix = '/setpoint/1/t/default/idem/';
    const [{ key, value } = { key: '', value: '' }] = (await world.store.list({ prefix })).entries;
    for (let n = 1; n < countLimits.answersPerCaller; n += 50) {
      const rest = Math.min(50, countLimits.answersPerCaller - n);
      await world.store.txn({
        if: [],
        then: Array.from({ length: rest }, (_, m) => ({ put: `${key.slice(0, -6)}${n + m}x`, value })),
      });
    }
    await world.settled();
    const refused = await owner.post('/projects', { name: 'second' }, headers('l'));
    expect(refused.status).toBe(429);
    expect(refused.body.error?.message).toContain('send the request without Idempotency-Key');
    const hours = Number(refused.headers.get('retry-after')) / 3600;
    expect(hours).toBeGreaterThan(24);
    expect(hours).toBeLessThanOrEqual(25);
    expect((await owner.post('/projects', { name: 'first' }, headers('k'))).data.id).toBe(first.data.id);
    expect((await owner.post('/projects', { name: 'second' })).status).toBe(201);
    expect((await other.post('/projects', { name: 'third' }, headers('l'))).status).toBe(201);
  });

  it('for the comparisons of an application that are under way', async () => {
    world = await startApi();
    const owner = await world.owner();
    const { project, environment, server } = await world.place(owner);
    const app = await owner.post('/applications', {
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'web',
      source_type: 'git',
      repository_url: 'https://git.example/web.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
    });
    expect(app.status).toBe(201);
    await fill(world, countLimits.comparisonsPerApplication, (unit) =>
      unit.create('operation', crypto.randomUUID(), {
        type: 'sync',
        application_id: app.data.id,
        requested_at: new Date().toISOString(),
        deadline_seconds: 20,
      }),
    );
    const refused = await owner.post(`/applications/${app.data.id}/deployments/sync`);
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toEqual([full]);
  });
});
