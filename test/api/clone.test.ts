import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyIdOf } from '../../store/copying.ts';
import { createTenant } from '../../store/tenants.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { setStage } from '../harness/stage.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** A project with an application in its default environment, on a server. */
async function shop() {
  const at = await world.place(owner);
  const base = `/projects/${at.project}/environments`;
  const app = await owner.post('/applications', {
    project_id: at.project,
    server_id: at.server,
    name: 'web',
    source_type: 'image',
    image_url: 'example/web',
  });
  expect(app.status).toBe(201);
  return { ...at, base, clone: `${base}/${at.environment}/clone`, app: app.data.id as string };
}

/** What the controller does at its end. */
async function complete(id: string): Promise<void> {
  await world.repo.change('environment', id, (draft) => {
    if (draft.clone_of) draft.clone_of.complete = true;
  });
}

describe('a clone of an environment', () => {
  it('takes name, type and description from the request and the rest from its source', async () => {
    const at = await shop();
    await owner.put(`${at.base}/${at.environment}`, {
      color: '#112233',
      git_branch: 'main',
      description: 'the real one',
      display_name: 'Live',
      labels: { tier: 'one' },
    });
    const made = await owner.post(at.clone, { name: 'staging', type: 'staging' });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({
      project_id: at.project,
      name: 'staging',
      type: 'staging',
      description: 'the real one',
      display_name: null,
      color: '#112233',
      git_branch: 'main',
      labels: { tier: 'one' },
      is_default: false,
      status: 'active',
      clone_of: { environment_id: at.environment, complete: false },
    });
    const plain = await owner.post(at.clone, { name: 'other', description: null });
    expect(plain.data).toMatchObject({ type: 'production', description: null });
    expect((await owner.get(`${at.base}/${at.environment}`)).data.clone_of).toBeNull();
  });

  it('has a name of its own in the project: of two requests at once one is refused', async () => {
    const at = await shop();
    const answers = await Promise.all([1, 2, 3].map(() => owner.post(at.clone, { name: 'Twin' })));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409, 409]);
    expect((await owner.post(at.clone, { name: 'production' })).status).toBe(409);
    const two = await Promise.all(['a', 'b'].map((name) => owner.post(at.clone, { name })));
    expect(two.map(({ status }) => status)).toEqual([201, 201]);
  });

  it.each([
    ['data, which has no way to go', { include_data: true }, 400, 'destination_id'],
    ['a field that it does not have', { color: '#000000' }, 400, undefined],
    ['a server that is none', { server_map: { x: 'y' } }, 400, undefined],
  ])('is refused with %s', async (_, fields, status, field) => {
    const at = await shop();
    const answer = await owner.post(at.clone, { name: 'copy', ...fields });
    expect(answer.status).toBe(status);
    if (field !== undefined) expect(answer.body.error?.details?.[0]?.field).toBe(field);
    expect((await owner.get(at.base)).data).toHaveLength(1);
  });

  it('needs a name, and takes include_data false', async () => {
    const at = await shop();
    expect((await owner.post(at.clone, {})).status).toBe(400);
    expect((await owner.post(at.clone, { name: 'copy', include_data: false })).status).toBe(201);
  });

  it('has data by way of a destination, and is refused where some cannot be copied', async () => {
    const at = await shop();
    const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
    const keys = { access_key: 'AKIDOFTHETEST', secret_key: 'sesame' };
    const { data: destination } = await owner.post('/settings/backup-destinations', {
      name: 'store',
      ...bucket,
      ...keys,
    });
    const place = { project_id: at.project, server_id: at.server };
    const database = await owner.post('/databases', { ...place, name: 'orders', type: 'postgres' });
    const { data: volume } = await owner.post('/volumes', { ...place, name: 'notes' });
    const asked = { name: 'copy', include_data: true, destination_id: destination.id };
    const pending = await owner.post(at.clone, asked);
    expect([pending.status, pending.body.error?.details?.[0]?.field]).toEqual([409, 'include_data']);
    await world.observe('volume', volume.id, { phase: 'available' });
    await world.observe('database', database.data.id, { phase: 'running' });
    const { data } = await owner.post(at.clone, asked);
    expect(data.clone_of).toEqual({
      environment_id: at.environment,
      complete: false,
      data: { total: 0, left: 0, failed: [] },
    });
    await owner.post(`/databases/${database.data.id}/stop`);
    const stopped = await owner.post(at.clone, { ...asked, name: 'another' });
    expect([stopped.status, stopped.body.error?.message]).toEqual([
      409,
      expect.stringMatching(/^Cannot copy the data of database orders\. .*stopped.*clone without include_data$/),
    ]);
    expect((await owner.post(at.clone, { name: 'plain' })).data.clone_of.data).toBeNull();
    await owner.delete(`/settings/backup-destinations/${destination.id}`);
  });

  it('moves workloads to servers that exist and stay', async () => {
    const at = await shop();
    const { server } = await world.place(owner);
    await createTenant(world.store, 'elsewhere', world.clock);
    const stranger = await setStage(world, 'owner', { tenant: 'elsewhere' });
    for (const wrong of [crypto.randomUUID(), at.project, at.environment, at.app, stranger.server]) {
      const unknown = await owner.post(at.clone, { name: 'a', server_map: { [at.server]: wrong } });
      expect(unknown.status).toBe(404);
      expect(unknown.body.error?.details?.[0]?.field).toBe('server_map');
    }
    expect((await owner.post(at.clone, { name: 'b', server_map: { [at.server]: server } })).status).toBe(201);
    await owner.delete(`/servers/${at.server}?force=true`);
    const stranded = await owner.post(at.clone, { name: 'c' });
    expect(stranded.status).toBe(409);
    expect(stranded.body.error?.message).toContain(`Server ${at.server} was deleted`);
    expect((await owner.post(at.clone, { name: 'd', server_map: { [at.server]: server } })).status).toBe(201);
    expect((await owner.post(at.clone, { name: 'e', server_map: { [server]: at.server } })).status).toBe(409);
  });

  it('stays on the one server of a project that has one', async () => {
    const at = await shop();
    const { server } = await world.place(owner);
    const mode = await owner.put(`/projects/${at.project}`, { default_server_id: at.server, single_server_mode: true });
    expect(mode.status).toBe(200);
    const away = await owner.post(at.clone, { name: 'a', server_map: { [at.server]: server } });
    expect(away.status).toBe(400);
    expect(away.body.error?.details).toEqual([
      expect.objectContaining({ field: 'server_map', reason: 'single_server' }),
    ]);
    expect((await owner.post(at.clone, { name: 'a' })).status).toBe(201);
  });

  it('is closed to whoever may not administer the project', async () => {
    const at = await shop();
    const user = await world.user();
    expect((await user.post(at.clone, { name: 'theirs' })).status).toBe(403);
  });

  it('is its own until it is complete: nobody writes into it, clones it or makes it the default', async () => {
    const at = await shop();
    const { id } = (await owner.post(at.clone, { name: 'copy' })).data;
    const source = (await world.repo.get('application', at.app))!;
    const copy = copyIdOf(id, at.app);
    const unit = world.repo.begin();
    unit.create('application', copy, desiredState('application', { ...source.desired, environment_id: id }));
    await commit(unit);
    const body = {
      project_id: at.project,
      environment_id: id,
      server_id: at.server,
      name: 'new',
      source_type: 'image',
      image_url: 'example/web',
    };
    const writes = async () => [
      await owner.post('/applications', body),
      await owner.put(`/applications/${copy}`, { replicas: 2 }),
      await owner.put(`/applications/${copy}/env`, { env: {} }),
      await owner.post(`/applications/${copy}/deploy`),
      await owner.post(`${at.base}/${id}/clone`, { name: 'copy of the copy' }),
      await owner.post(`${at.base}/${id}/set-default`),
      await owner.delete(`/applications/${copy}`),
    ];
    const refused = await writes();
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 409));
    expect(refused[1]?.body.error?.message).toContain('still being cloned');
    expect((await owner.get(`/applications/${copy}`)).status).toBe(200);
    expect((await owner.put(`${at.base}/${id}`, { description: 'mine' })).status).toBe(200);
    await complete(id);
    const allowed = await writes();
    expect(allowed.map(({ status }) => status < 300)).toEqual(allowed.map(() => true));
    expect((await owner.get(`${at.base}/${id}`)).data.clone_of.complete).toBe(true);
  });

  it('can be given up: deleting it is deleting an environment with what is in it', async () => {
    const at = await shop();
    const { id } = (await owner.post(at.clone, { name: 'copy' })).data;
    expect((await owner.delete(`${at.base}/${id}`)).data.status).toBe('deleting');
    expect((await owner.post(at.clone, { name: 'copy' })).status).toBe(409);
  });
});
