import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

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

let count = 0;
const aName = (): string => `name-${(count += 1)}`;

describe('a project', () => {
  it('comes with an environment called production, its default', async () => {
    const { data, status } = await owner.post('/projects', {
      name: 'Straße 1',
      display_name: 'Shown',
      color: '#1f6feb',
    });
    expect(status).toBe(201);
    expect(data).toMatchObject({
      name: 'Straße 1',
      display_name: 'Shown',
      color: '#1f6feb',
      status: 'active',
      icon_path: null,
    });
    const environments = await owner.get(`/projects/${data.id}/environments`);
    expect(environments.data).toEqual([
      expect.objectContaining({
        id: data.default_environment_id,
        name: 'production',
        type: 'production',
        is_default: true,
      }),
    ]);
  });

  it('has a name of its own, whatever its case', async () => {
    expect((await owner.post('/projects', { name: 'Unique' })).status).toBe(201);
    const second = await owner.post('/projects', { name: 'uNIQUE' });
    expect(second.status).toBe(409);
    expect(second.body.error?.details).toEqual([expect.objectContaining({ field: 'name', reason: 'taken' })]);
    const other = (await owner.post('/projects', { name: aName() })).data;
    expect((await owner.put(`/projects/${other.id}`, { name: 'UNIQUE' })).status).toBe(409);
  });

  it('changes what is sent, clears what is null, and takes an answer back as it came', async () => {
    const made = (await owner.post('/projects', { name: aName(), description: 'one', color: '#000000' })).data;
    const path = `/projects/${made.id}`;
    const changed = (await owner.put(path, { description: null, labels: { a: 'b' } })).data;
    expect(changed).toMatchObject({ description: null, color: '#000000', labels: { a: 'b' }, generation: 2 });
    const back = await owner.put(path, { ...changed, display_name: 'New' });
    expect(back.status).toBe(200);
    expect(back.data).toMatchObject({
      ...changed,
      display_name: 'New',
      generation: 3,
      resource_version: expect.any(String),
      updated_at: expect.any(String),
    });
    const moved = await owner.put(path, { owner_id: crypto.randomUUID(), id: crypto.randomUUID() });
    expect(moved.data).toMatchObject({ id: made.id, owner_id: made.owner_id });
  });

  it('refers to a server that exists', async () => {
    const answer = await owner.post('/projects', { name: aName(), default_server_id: crypto.randomUUID() });
    expect(answer.status).toBe(404);
    expect(answer.body.error?.details?.[0]?.field).toBe('default_server_id');
    const { server } = await world.place(owner);
    expect((await owner.post('/projects', { name: aName(), default_server_id: server })).data.default_server_id).toBe(
      server,
    );
  });

  it('is deleting after its deletion, refuses verbs, and is gone when its controller is done', async () => {
    const { id } = (await owner.post('/projects', { name: aName() })).data;
    const deleted = await owner.delete(`/projects/${id}`);
    expect(deleted.status).toBe(200);
    expect(deleted.data.status).toBe('deleting');
    expect((await owner.get(`/projects/${id}`)).data.status).toBe('deleting');
    expect((await owner.put(`/projects/${id}`, { description: 'x' })).status).toBe(409);
    expect((await owner.delete(`/projects/${id}`)).status).toBe(200);
    expect((await owner.post(`/projects/${id}/environments`, { name: 'staging' })).status).toBe(409);
    const unit = world.repo.begin();
    unit.release((await world.repo.get('project', id))! as never, 'project');
    await unit.commit();
    expect((await owner.get(`/projects/${id}`)).status).toBe(404);
  });

  it('is closed to users who are no members of it, and hidden from their lists', async () => {
    const user = await world.user();
    const { id, default_environment_id } = (await owner.post('/projects', { name: aName() })).data;
    const base = `/projects/${id}`;
    const answers = [
      await user.get(base),
      await user.put(base, { surprise: 1 }),
      await user.delete(base),
      await user.get(`${base}/environments`),
      await user.post(`${base}/environments`, {}),
      await user.get(`${base}/environments/${default_environment_id}`),
      await user.get(`/applications/check-name?projectId=${id}&name=x`),
      await user.post('/applications', { project_id: id }),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 403));
    expect((await user.get(`/projects/${crypto.randomUUID()}`)).status).toBe(404);
    const own = (await user.post('/projects', { name: aName() })).data;
    const guess = `projectId=${own.id}&environmentId=${default_environment_id}&name=x`;
    expect((await user.get(`/applications/check-name?${guess}`)).status).toBe(404);
    expect((await user.put(`/projects/${own.id}`, { description: 'mine' })).status).toBe(200);
    const admin = await world.user('admin');
    expect((await admin.put(`/projects/${own.id}`, { description: 'theirs' })).status).toBe(200);
  });
});

describe('an environment', () => {
  it('is created, changed and made the default', async () => {
    const project = (await owner.post('/projects', { name: aName() })).data;
    const base = `/projects/${project.id}/environments`;
    const made = await owner.post(base, { name: 'staging', type: 'staging', color: '#ffffff', git_branch: 'develop' });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({ type: 'staging', git_branch: 'develop', is_default: false, status: 'active' });
    expect((await owner.post(base, { name: 'Staging' })).status).toBe(409);
    expect((await owner.post(base, { name: 'x', git_branch: '--upload-pack=x' })).status).toBe(400);
    const path = `${base}/${made.data.id}`;
    expect((await owner.put(path, { ...made.data, display_name: 'Stage' })).data.display_name).toBe('Stage');
    expect((await owner.post(`${path}/set-default`)).data.is_default).toBe(true);
    expect((await owner.get(`/projects/${project.id}`)).data.default_environment_id).toBe(made.data.id);
    expect((await owner.get(path)).data.is_default).toBe(true);
    expect((await owner.get(`${base}/${project.default_environment_id}`)).data.is_default).toBe(false);
  });

  it('is not found below another project', async () => {
    const [one, two] = [
      (await owner.post('/projects', { name: aName() })).data,
      (await owner.post('/projects', { name: aName() })).data,
    ];
    expect((await owner.get(`/projects/${one.id}/environments/${two.default_environment_id}`)).status).toBe(404);
    expect(
      (await owner.delete(`/projects/${one.id}/environments/${two.default_environment_id}?force=true`)).status,
    ).toBe(404);
  });

  it('is not deleted while it is the default one, and with resources only by force', async () => {
    const { project, environment, server } = await world.place(owner);
    const base = `/projects/${project}/environments`;
    expect((await owner.delete(`${base}/${environment}`)).status).toBe(409);
    const staging = (await owner.post(base, { name: 'staging' })).data;
    const app = await owner.post('/applications', {
      project_id: project,
      environment_id: staging.id,
      server_id: server,
      name: 'web',
      source_type: 'image',
      image_url: 'example/web',
    });
    expect(app.status).toBe(201);
    expect((await owner.delete(`${base}/${staging.id}`)).status).toBe(409);
    const forced = await owner.delete(`${base}/${staging.id}?force=true`);
    expect(forced.data.status).toBe('deleting');
    expect((await owner.post(`${base}/${staging.id}/set-default`)).status).toBe(409);
  });
});
