import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { commit } from '../../store/unit.ts';

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
let otherServer: string;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  project = (await owner.post('/projects', { name: 'shop' })).data.id;
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  otherServer = (await owner.post('/servers', { name: 'two' })).data.id;
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;

async function volume(fields: object = {}): Promise<string> {
  const { data, status } = await owner.post('/volumes', {
    project_id: project,
    server_id: server,
    name: aName(),
    ...fields,
  });
  expect(status).toBe(201);
  return data.id;
}

async function application(fields: object = {}): Promise<string> {
  const { data, status } = await owner.post('/applications', {
    project_id: project,
    server_id: server,
    name: aName(),
    source_type: 'image',
    image_url: 'example/web:1',
    ...fields,
  });
  expect(status).toBe(201);
  return data.id;
}

const binding = (id: string, path = '/data', more: object = {}) => ({
  workload_type: 'application',
  workload_id: id,
  mount_path: path,
  ...more,
});

describe('a volume', () => {
  it('is pending until its server has it, and has a name of its own in its environment', async () => {
    const name = aName();
    const { data, status } = await owner.post('/volumes', { project_id: project, server_id: server, name });
    expect(status).toBe(201);
    expect(data).toMatchObject({ project_id: project, server_id: server, name, bindings: [], status: 'pending' });
    const again = await owner.post('/volumes', { project_id: project, server_id: server, name: name.toUpperCase() });
    expect(again.status).toBe(409);
    expect((await owner.put(`/volumes/${data.id}`, { name: `${name}-b` })).data).toMatchObject({ name: `${name}-b` });
    const { data: all } = await owner.get(`/volumes?projectId=${project}&q=${name}-b`);
    expect(all.map(({ id }: { id: string }) => id)).toEqual([data.id]);
  });

  it('begins as a copy only where the store says so, which no request for a volume can ask for', async () => {
    const copyFrom = { docker_volume: 'blog_data', containers: ['blog-db-1'] };
    const place = { project_id: project, server_id: server, name: aName() };
    const { status, body } = await owner.post('/volumes', { ...place, copy_from: copyFrom });
    expect([status, body.error?.details?.map(({ field }) => field)]).toEqual([400, ['copy_from']]);
    const empty = await volume();
    await owner.put(`/volumes/${empty}`, { copy_from: copyFrom });
    expect((await owner.get(`/volumes/${empty}`)).data.copy_from).toBeNull();

    const unit = world.repo.begin();
    const before = await world.repo.get('volume', empty);
    if (before === undefined) throw new Error('There is no volume');
    const id = crypto.randomUUID();
    unit.create('volume', id, { ...before.desired, name: aName(), copy_from: copyFrom });
    await commit(unit);
    await expect.poll(async () => (await owner.get(`/volumes/${id}`)).data?.copy_from).toEqual(copyFrom);
    const listed = (await owner.get(`/volumes?projectId=${project}`)).data;
    expect(listed.find((it: { id: string }) => it.id === id).copy_from).toEqual(copyFrom);
  });

  it('is bound, for one who waits, once the application has its instances again', async () => {
    const [id, app] = [await volume(), await application()];
    const bind = owner.post(`/volumes/${id}/bind?wait=20`, binding(app));
    let isAnswered = false;
    const answered = bind.finally(() => (isAnswered = true));
    await expect.poll(async () => (await owner.get(`/volumes/${id}`)).data.bindings).toHaveLength(1);
    await world.observe('volume', id, { phase: 'available' });
    const counts = { consecutive_failures: 0, ready_replicas: 0, crash_loop_counted: false };
    await world.observe('application', app, { phase: 'running', ...counts });
    expect((await owner.get(`/volumes/${id}`)).data.status).toBe('available');
    expect(isAnswered).toBe(false);
    await world.observe('volume', id, { phase: 'bound' });
    expect(await answered).toMatchObject({ status: 200, data: { id, status: 'bound' } });

    const unbind = owner.post(`/volumes/${id}/unbind?wait=20`, {}).finally(() => (isAnswered = true));
    isAnswered = false;
    await expect.poll(async () => (await owner.get(`/volumes/${id}`)).data.bindings).toEqual([]);
    expect((await owner.get(`/volumes/${id}`)).data.status).toBe('bound');
    expect(isAnswered).toBe(false);
    await world.observe('volume', id, { phase: 'available' });
    expect(await unbind).toMatchObject({ status: 200, data: { id, status: 'available', bindings: [] } });
  });

  it('that is to go, as the former data of a restore is, stays once it is mounted', async () => {
    const [id, app] = [await volume(), await application()];
    await world.repo.change('volume', id, (draft) => void (draft.expires_at = '2030-01-01T00:00:00.000Z'));
    await world.settled();
    expect((await owner.get(`/volumes/${id}`)).data.expires_at).toBe('2030-01-01T00:00:00.000Z');
    expect((await owner.post(`/volumes/${id}/bind`, binding(app))).data.expires_at).toBeNull();
    expect((await owner.get(`/volumes/${id}`)).data.expires_at).toBeNull();
  });

  it('is bound to an application, which shows it, and to no other one until it is unbound', async () => {
    const [id, app, other] = [await volume(), await application(), await application()];
    const { data, status } = await owner.post(`/volumes/${id}/bind`, binding(app));
    expect(status).toBe(200);
    const bound = { workload_type: 'application', workload_id: app, mount_path: '/data', read_only: false };
    expect(data.bindings).toEqual([bound]);
    expect((await owner.get(`/volumes/${id}`)).data.bindings).toEqual([bound]);
    const { data: linked } = await owner.get(`/applications/${app}/dependencies`);
    expect(linked.volumes).toEqual([{ id, name: expect.any(String) }]);
    const second = await owner.post(`/volumes/${id}/bind`, binding(other));
    expect([second.status, second.body.error?.message]).toEqual([
      409,
      'The volume is mounted already (1 application): unbind it first',
    ]);
    expect((await owner.delete(`/volumes/${id}`)).status).toBe(409);
    expect((await owner.post(`/volumes/${id}/unbind`, {})).data.bindings).toEqual([]);
    expect((await owner.post(`/volumes/${id}/bind`, binding(other))).status).toBe(200);
    expect((await owner.delete(`/applications/${other}`)).status).toBe(200);
  });

  it.each(['application', 'function'] as const)('is bound to the same %s again without effect', async (kind) => {
    const id = await volume();
    const of = { project_id: project, server_id: server, name: aName(), runtime: 'node20', code: 'export default 1' };
    const workload = kind === 'application' ? await application() : (await owner.post('/functions', of)).data.id;
    const wanted = { workload_type: kind, workload_id: workload, mount_path: '/data' };
    const first = await owner.post(`/volumes/${id}/bind`, wanted);
    const before = await world.repo.get(kind, workload);
    for (const same of [wanted, { ...wanted, read_only: false }])
      expect(await owner.post(`/volumes/${id}/bind`, same)).toMatchObject({ status: 200, data: first.data });
    expect(await world.repo.get(kind, workload)).toEqual(before);
    for (const other of [{ mount_path: '/other' }, { read_only: true }])
      expect((await owner.post(`/volumes/${id}/bind`, { ...wanted, ...other })).status).toBe(409);
  });

  it('is bound by one of two who ask at once', async () => {
    const id = await volume();
    const apps = await Promise.all([application(), application(), application()]);
    const answers = await Promise.all(apps.map((app) => owner.post(`/volumes/${id}/bind`, binding(app))));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
    expect((await owner.get(`/volumes/${id}`)).data.bindings).toHaveLength(1);
  });

  it('is not bound where it cannot be mounted', async () => {
    const [id, app] = [await volume(), await application()];
    const elsewhere = await application({ server_id: otherServer });
    expect((await owner.post(`/volumes/${id}/bind`, binding(elsewhere))).body.error?.message).toMatch(/another server/);
    const several = await application({ replicas: 2 });
    expect((await owner.post(`/volumes/${id}/bind`, binding(several))).body.error?.message).toMatch(
      /several instances/,
    );
    expect((await owner.post(`/volumes/${id}/bind`, binding(several, '/data', { read_only: true }))).status).toBe(200);
    expect((await owner.post(`/volumes/${await volume()}/bind`, binding(app, '/a/b'))).status).toBe(200);
    const free = await volume();
    for (const path of ['/a', '/a/b', '/a/b/c'])
      expect((await owner.post(`/volumes/${free}/bind`, binding(app, path))).status, path).toBe(409);
    expect((await owner.post(`/volumes/${free}/bind`, binding(app, '/a/bc'))).status).toBe(200);
  });

  it.each(['data', '/', '/a/', '//a', '/a/../b', '/a/./b', '/proc', '/sys/x', '/dev', '/a:b', '/a b', '/a\nb'])(
    'is not mounted at %j',
    async (path) => {
      const { status } = await owner.post(`/volumes/${await volume()}/bind`, binding(await application(), path));
      expect(status).toBe(400);
    },
  );

  it('is mounted by a function, all whose instances may write to it, and by nothing else then', async () => {
    const [id, app] = [await volume(), await application()];
    const fields = {
      project_id: project,
      server_id: server,
      name: aName(),
      runtime: 'node20',
      code: 'export default 1',
    };
    const made = await owner.post('/functions', { ...fields, max_instances: 3 });
    expect(made.status).toBe(201);
    const bind = { workload_type: 'function', workload_id: made.data.id, mount_path: '/data' };
    const bound = { workload_type: 'function', workload_id: made.data.id, mount_path: '/data', read_only: false };
    for (const path of ['/tmp', '/tmp/x', '/function'])
      expect((await owner.post(`/volumes/${id}/bind`, { ...bind, mount_path: path })).status, path).toBe(409);
    expect((await owner.post(`/volumes/${id}/bind`, { ...bind, workload_type: 'application' })).status).toBe(404);
    expect((await owner.post(`/volumes/${id}/bind`, bind)).data.bindings).toEqual([bound]);
    expect((await owner.get(`/volumes/${id}`)).data.bindings).toEqual([bound]);
    const { volumes } = (await owner.get(`/functions/${made.data.id}/dependencies`)).data;
    expect(volumes).toMatchObject([{ id }]);
    expect((await owner.post(`/volumes/${id}/bind`, binding(app))).body.error?.message).toBe(
      'The volume is mounted already (1 function): unbind it first',
    );
    expect((await owner.delete(`/volumes/${id}`)).status).toBe(409);
    const unbound = await owner.post(`/volumes/${id}/unbind`, { workload_id: made.data.id });
    expect(unbound.data.bindings).toEqual([]);
    expect((await owner.post(`/volumes/${id}/bind`, binding(app))).status).toBe(200);
  });

  it('keeps its application at one instance, unless it is only read', async () => {
    const [id, app] = [await volume(), await application()];
    await owner.post(`/volumes/${id}/bind`, binding(app));
    for (const send of [
      () => owner.post(`/applications/${app}/scale`, { replicas: 2 }),
      () => owner.put(`/applications/${app}`, { replicas: 2 }),
    ])
      expect((await send()).status).toBe(409);
    await owner.post(`/volumes/${id}/unbind`, { workload_id: app });
    expect((await owner.post(`/applications/${app}/scale`, { replicas: 2 })).status).toBe(200);
  });

  it('counts as content of its environment and its server', async () => {
    const alone = (await owner.post('/servers', { name: aName() })).data.id;
    const id = await volume({ server_id: alone });
    const { status, body } = await owner.delete(`/servers/${alone}`);
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('1 volume')]);
    expect((await owner.delete(`/volumes/${id}`)).data.status).toBe('deleting');
  });
});
