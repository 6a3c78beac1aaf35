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

  it('is sent back with a server that it may not be given any more', async () => {
    const { server } = await world.place(owner);
    const { id } = (await owner.post('/projects', { name: aName(), default_server_id: server })).data;
    expect((await owner.put(`/servers/${server}`, { allowed_projects: [] })).status).toBe(200);
    const shown = (await owner.get(`/projects/${id}`)).data;
    expect((await owner.put(`/projects/${id}`, { ...shown, description: 'as it was' })).status).toBe(200);
    const other = (await owner.post('/servers', { name: aName(), allowed_projects: [] })).data.id;
    expect((await owner.put(`/projects/${id}`, { default_server_id: other })).status).toBe(403);
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
    unit.release((await world.repo.get('project', id))!, 'project');
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

describe('the name of a project', () => {
  it('is taken for everybody who writes it in another case, also where the case has no letter of its own', async () => {
    expect((await owner.post('/projects', { name: 'Große Straße' })).status).toBe(201);
    for (const name of ['GROSSE STRASSE', 'grosse strasse', 'große straße', 'Gro\u1e9ee Stra\u1e9ee'])
      expect([name, (await owner.post('/projects', { name })).status]).toEqual([name, 409]);
  });
});

describe('a project in single-server mode', () => {
  const app = (at: { project: string }, fields: object = {}) =>
    owner.post('/applications', {
      project_id: at.project,
      name: aName(),
      source_type: 'image',
      image_url: 'example/web',
      ...fields,
    });

  async function single() {
    const at = await world.place(owner);
    const path = `/projects/${at.project}`;
    const mode = await owner.put(path, { single_server_mode: true, default_server_id: at.server });
    expect(mode.data).toMatchObject({ single_server_mode: true, default_server_id: at.server });
    return { ...at, path };
  }

  it('takes the server of the first workload where it has none', async () => {
    const at = await world.place(owner);
    const made = await owner.post('/projects', { name: aName(), single_server_mode: true });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({ single_server_mode: true, default_server_id: null });
    const place = { project: made.data.id, environment: made.data.default_environment_id, server: at.server };
    const path = `/projects/${place.project}`;
    const nowhere = await app(place, { server_id: undefined });
    expect([nowhere.status, nowhere.body.error?.details?.[0]?.field]).toEqual([400, 'server_id']);
    expect((await app(place, { server_id: at.server })).status).toBe(201);
    expect((await owner.get(path)).data.default_server_id).toBe(at.server);
    const { server: other } = await world.place(owner);
    expect((await app(place, { server_id: other })).status).toBe(400);
    expect((await app(place, { server_id: undefined })).data.server_id).toBe(at.server);
    expect((await owner.put(path, { default_server_id: null })).data.default_server_id).toBe(at.server);
  });

  it('is of one server when two first workloads come at the same moment', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [one, two] = [await world.place(owner), await world.place(owner)];
      const project = (await owner.post('/projects', { name: aName(), single_server_mode: true })).data;
      const place = { project: project.id, environment: project.default_environment_id, server: one.server };
      const both = await Promise.all([app(place, { server_id: one.server }), app(place, { server_id: two.server })]);
      const statuses = both.map(({ status }) => status);
      expect([
        [201, 400],
        [400, 201],
      ]).toContainEqual(statuses);
      const [made] = both.filter(({ status }) => status === 201);
      expect((await owner.get(`/projects/${project.id}`)).data.default_server_id).toBe(made?.data.server_id);
    }
  });

  it('begins on the server that all runs on, where none is named', async () => {
    const at = await world.place(owner);
    expect((await app(at, { server_id: at.server })).status).toBe(201);
    const on = await owner.put(`/projects/${at.project}`, { single_server_mode: true });
    expect(on.data).toMatchObject({ single_server_mode: true, default_server_id: at.server });
    const { server: other } = await world.place(owner);
    const spread = await world.place(owner);
    await app(spread, { server_id: other });
    await app(spread, { server_id: spread.server });
    expect((await owner.put(`/projects/${spread.project}`, { single_server_mode: true })).status).toBe(409);
  });

  it('puts every workload on its server, and refuses another one', async () => {
    const at = await single();
    const { server: other } = await world.place(owner);
    expect((await app(at)).data.server_id).toBe(at.server);
    expect((await app(at, { server_id: at.server })).status).toBe(201);
    const refused = await app(at, { server_id: other });
    expect(refused.status).toBe(400);
    expect(refused.body.error?.message).toContain(`name its default server, ${at.server}`);
    expect(refused.body.error?.details).toEqual([
      expect.objectContaining({ field: 'server_id', reason: 'single_server' }),
    ]);
  });

  it('begins when nothing runs elsewhere, and shows what does', async () => {
    const at = await world.place(owner);
    const { server: other } = await world.place(owner);
    const path = `/projects/${at.project}`;
    const staging = (await owner.post(`${path}/environments`, { name: 'staging' })).data;
    const away = (await app(at, { server_id: other, environment_id: staging.id, name: 'jobs' })).data;
    const mode = { single_server_mode: true, default_server_id: at.server };
    const refused = await owner.put(path, mode);
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toEqual([
      {
        field: 'single_server_mode',
        reason: 'elsewhere',
        message: `application jobs (${away.id}) is on server ${other}`,
      },
    ]);
    expect((await owner.put(path, { ...mode, default_server_id: other })).status).toBe(200);
    const moved = await owner.put(path, { default_server_id: at.server });
    expect(moved.status).toBe(409);
    expect((await owner.put(path, { description: 'x' })).status).toBe(200);
  });

  it('does not begin while an environment is being cloned', async () => {
    const at = await world.place(owner);
    const path = `/projects/${at.project}`;
    expect((await owner.post(`${path}/environments/${at.environment}/clone`, { name: 'copy' })).status).toBe(201);
    const refused = await owner.put(path, { single_server_mode: true, default_server_id: at.server });
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('being cloned')]);
  });

  it('does not begin beside a workload that comes to another server at the same moment', async () => {
    const { server: other } = await world.place(owner);
    for (let round = 0; round < 10; round += 1) {
      const at = await world.place(owner);
      const [mode, created] = await Promise.all([
        owner.put(`/projects/${at.project}`, { single_server_mode: true, default_server_id: at.server }),
        app(at, { server_id: other }),
      ]);
      expect([
        [200, 400],
        [409, 201],
      ]).toContainEqual([mode.status, created.status]);
    }
  });
});

describe('a default server', () => {
  it('stays as long as a project has it, also by force', async () => {
    const at = await world.place(owner);
    const name = aName();
    const project = (await owner.post('/projects', { name, default_server_id: at.server })).data;
    for (const query of ['', '?force=true']) {
      const refused = await owner.delete(`/servers/${at.server}${query}`);
      expect(refused.status).toBe(409);
      expect(refused.body.error?.details).toEqual([
        { field: 'default_server_id', reason: 'in_use', message: `Project ${name} (${project.id})` },
      ]);
    }
    await owner.put(`/projects/${project.id}`, { default_server_id: null });
    expect((await owner.delete(`/servers/${at.server}`)).status).toBe(200);
    const gone = await owner.put(`/projects/${project.id}`, { default_server_id: at.server });
    expect(gone.status).toBe(409);
  });

  it('is not deleted beside a project that takes it at the same moment', async () => {
    for (let round = 0; round < 10; round += 1) {
      const at = await world.place(owner);
      const [taken, deleted] = await Promise.all([
        owner.put(`/projects/${at.project}`, { default_server_id: at.server }),
        owner.delete(`/servers/${at.server}`),
      ]);
      expect([
        [200, 409],
        [409, 200],
      ]).toContainEqual([taken.status, deleted.status]);
    }
  });

  it('is used by a workload that names none', async () => {
    const at = await world.place(owner);
    const body = { project_id: at.project, name: 'web', source_type: 'image', image_url: 'example/web' };
    expect((await owner.post('/applications', body)).status).toBe(400);
    await owner.put(`/projects/${at.project}`, { default_server_id: at.server });
    expect((await owner.post('/applications', body)).data.server_id).toBe(at.server);
  });
});

describe('every field of an environment', () => {
  it('is changed alone, and the optional ones are cleared by null', async () => {
    const project = (await owner.post('/projects', { name: aName() })).data;
    const base = `/projects/${project.id}/environments`;
    const fields = {
      name: 'other',
      display_name: 'Shown',
      type: 'staging',
      description: 'Told',
      color: '#abcdef',
      git_branch: 'develop',
    };
    const made = await owner.post(base, { ...fields, name: 'first' });
    expect(made.data).toMatchObject({ ...fields, name: 'first', is_default: false, clone_of: null });
    const path = `${base}/${made.data.id}`;
    for (const [field, value] of Object.entries({ ...fields, type: 'preview' }))
      expect((await owner.put(path, { [field]: value })).data[field]).toBe(value);
    const empty = { display_name: null, description: null, color: null, git_branch: null };
    const { data } = await owner.put(path, { ...empty, type: null });
    expect(data).toMatchObject({ ...empty, name: 'other', type: 'staging' });
    expect((await owner.put(path, { name: null })).status).toBe(400);
    expect((await owner.put(path, { surprise: 1 })).status).toBe(400);
    const same = await owner.put(path, { clone_of: { environment_id: made.data.id }, is_default: true, status: 'x' });
    expect(same.data).toEqual(data);
  });

  it('has its default where it is not sent: the type is staging, and production of the one that comes with a project', async () => {
    const project = (await owner.post('/projects', { name: aName() })).data;
    const base = `/projects/${project.id}/environments`;
    const { data: first } = await owner.get(`${base}/${project.default_environment_id}`);
    const { data: made } = await owner.post(base, { name: 'qa' });
    const { data: empty } = await owner.post(base, { name: 'next', type: null });
    const text = 'apiVersion: setpoint/v1\nkind: Environment\nmetadata: {name: declared}\nspec: {}\n';
    expect((await owner.post('/apply', { project_id: project.id, content: text })).status).toBe(200);
    const declared = (await owner.get(base)).data.find(({ name }: { name: string }) => name === 'declared');
    const types = [first, made, empty, declared].map(({ type }) => type);
    expect(types).toEqual(['production', 'staging', 'staging', 'staging']);
    const changed = await owner.put(`${base}/${first.id}`, { description: 'as it was' });
    expect(changed.data.type).toBe('production');
  });
});

describe('every field of a project', () => {
  it('is changed alone, and the optional ones are cleared by null', async () => {
    const { server } = await world.place(owner);
    const made = (await owner.post('/projects', { name: aName() })).data;
    const path = `/projects/${made.id}`;
    const fields = {
      name: aName(),
      display_name: 'Shown',
      description: 'Told',
      color: '#abcdef',
      default_server_id: server,
      single_server_mode: true,
      auto_error_tracking_enabled: true,
    };
    let expected = made;
    for (const [field, value] of Object.entries(fields)) {
      const { data } = await owner.put(path, { [field]: value });
      expected = { ...expected, [field]: value };
      expect(Object.fromEntries(Object.keys(fields).map((name) => [name, data[name]]))).toEqual(
        Object.fromEntries(Object.keys(fields).map((name) => [name, expected[name]])),
      );
    }
    const cleared = await owner.put(path, { single_server_mode: null, auto_error_tracking_enabled: null });
    expect(cleared.data).toMatchObject({ single_server_mode: false, auto_error_tracking_enabled: false });
    expect((await owner.put(path, { name: null })).status).toBe(400);
    for (const field of ['display_name', 'description', 'color', 'default_server_id'])
      expect((await owner.put(path, { [field]: null })).data[field]).toBeNull();
    expect((await owner.put(path, { surprise: 1 })).status).toBe(400);
    const { data } = await owner.put(path, { status: 'deleting', default_environment_id: crypto.randomUUID() });
    expect(data).toMatchObject({ status: 'active', default_environment_id: made.default_environment_id });
  });
});
