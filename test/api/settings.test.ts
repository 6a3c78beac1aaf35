import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultSettings } from '../../store/settings.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

describe('the settings of a new tenant', () => {
  it('every user reads the settings, which are the defaults until somebody sets them', async () => {
    await using fresh = await startApi();
    const owner = await fresh.owner();
    const user = await fresh.user();
    const { status, data, headers } = await user.get('/settings');
    expect([status, headers.get('etag')]).toEqual([200, '"0"']);
    expect(data).toEqual({ ...defaultSettings, resource_version: '0', updated_at: null });
    expect((await fresh.client().get('/settings')).status).toBe(401);
    expect((await owner.put('/settings', { registries: ['ghcr.io'] })).status).toBe(200);
    expect((await user.get('/settings')).data).toMatchObject({ registries: ['ghcr.io'], project_creation: 'users' });
  });

  it('two who set at once both have their say', async () => {
    await using fresh = await startApi();
    const owner = await fresh.owner();
    const answers = await Promise.all([
      owner.put('/settings', { project_creation: 'admins' }),
      owner.put('/settings', { registries: ['ghcr.io'] }),
      owner.put('/settings', { budgets: { user: { objects: 5 } } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await owner.get('/settings')).data).toMatchObject({
      project_creation: 'admins',
      registries: ['ghcr.io'],
      budgets: { user: { objects: 5 } },
    });
  });
});

describe('settings', () => {
  let world: ApiWorld;
  let root: Client;

  beforeAll(async () => {
    world = await startApi();
    root = await world.owner();
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  const everything = { project_creation: null, new_addresses: null, registries: null };
  beforeEach(async () => {
    const none = { stored_bytes: null, written_bytes_per_minute: null, objects: null, build_minutes_per_day: null };
    const budgets = { project: none, user: none, tenant: none };
    expect((await root.put('/settings', { ...everything, budgets })).status).toBe(200);
  });

  it('a superadmin changes what is sent and nothing else; null returns to the default', async () => {
    const { data: before } = await root.get('/settings');
    const budgets = { project: { objects: 7, stored_bytes: 1_000_000 }, tenant: { objects: 0 } };
    const set = await root.put('/settings', { new_addresses: 'users', budgets });
    expect(set.data).toMatchObject({
      project_creation: 'users',
      new_addresses: 'users',
      registries: defaultSettings.registries,
      budgets: {
        project: { ...defaultSettings.budgets.project, objects: 7, stored_bytes: 1_000_000 },
        user: defaultSettings.budgets.user,
        tenant: { ...defaultSettings.budgets.tenant, objects: 0 },
      },
    });
    await root.put('/settings', { new_addresses: null, budgets: { project: { objects: null } } });
    const { data } = await root.get('/settings');
    expect(data.new_addresses).toBe('admins');
    expect(data.budgets.project).toEqual({ ...defaultSettings.budgets.project, stored_bytes: 1_000_000 });
    expect(Number(data.resource_version)).toBeGreaterThan(Number(before.resource_version));
  });

  it('an answer can be changed and sent back, at the version that it shows', async () => {
    const { data: read } = await root.get('/settings');
    const sent = await root.put(
      '/settings',
      { ...read, registries: ['GHCR.io', 'ghcr.io', 'localhost:5000'] },
      { 'if-match': read.resource_version },
    );
    expect([sent.status, sent.data.registries]).toEqual([200, ['ghcr.io', 'localhost:5000']]);
    const late = await root.put('/settings', { registries: [] }, { 'if-match': read.resource_version });
    expect([late.status, late.body.error?.details?.[0]?.reason]).toEqual([409, 'mismatch']);
  });

  it.each([
    [{ project_creation: 'everybody' }, 'project_creation'],
    [{ registries: ['https://ghcr.io'] }, 'registries.0'],
    [{ registries: ['*'] }, 'registries.0'],
    [{ budgets: { project: { objects: -1 } } }, 'budgets.project.objects'],
    [{ budgets: { project: { objects: 1.5 } } }, 'budgets.project.objects'],
    [{ budgets: { installation: {} } }, 'budgets'],
    [{ colour: 'red' }, 'colour'],
  ])('%j is refused', async (body, field) => {
    const { status, body: answer } = await root.put('/settings', body);
    expect(status).toBe(400);
    expect(JSON.stringify(answer.error)).toContain(field);
  });

  it('a change is in the audit log, with the names of what changed', async () => {
    await root.put('/settings', { project_creation: 'admins' });
    const { data } = await root.get('/audit?kind=settings');
    expect(data[0]).toMatchObject({
      route: 'PUT /settings',
      objects: [{ kind: 'settings', action: 'change', fields: ['project_creation'] }],
    });
  });
});
