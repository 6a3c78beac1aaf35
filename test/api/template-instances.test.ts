import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { templateInstanceController } from '../../controllers/template-instance/reconcile.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { lead } from '../harness/leading.ts';
import { until } from '../harness/until.ts';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;

/** A volume, then a database, then an application that mounts the one and refers to the other. */
const content = [
  'apiVersion: setpoint/v1',
  'kind: Template',
  'metadata: {name: shop}',
  'volumes: [{name: files, labels: {team: files}}]',
  'databases: [{name: db, type: redis, labels: {team: data}}]',
  'applications:',
  '  - name: web',
  '    image_url: web:1',
  '    exposed_port: 8080',
  '    labels: {team: web}',
  '    env: {DATABASE_URL: "${databases.db.url}"}',
  '    volumes: [{volume: files, path: /files}]',
].join('\n');
let template: string;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  const controller = templateInstanceController({
    buildDeadlineMs: 60_000,
    ownPorts: [],
    runtimeImages: {},
    secrets: world.keyring,
  });
  running.use(await lead(world, world.clock, controller));
  owner = await world.owner();
  template = (await owner.post('/templates', { content })).data.id;
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

interface Shop {
  id: string;
  project: string;
  server: string;
  environment: string;
  child: Record<'files' | 'db' | 'web', string>;
}

async function shop(name = 'shop', of = template): Promise<Shop> {
  const place = await world.place(owner);
  const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
  const made = await owner.post(`/templates/${of}/instantiate`, { ...fields, name });
  expect(made.status).toBe(201);
  const idOf = (key: string): string => made.data.children.find((it: { key: string }) => it.key === key).id;
  return { ...place, id: made.data.id, child: { files: idOf('files'), db: idOf('db'), web: idOf('web') } };
}

const read = async ({ id }: Shop) => (await owner.get(`/template-instances/${id}`)).data;
const statesOf = async (it: Shop) =>
  (await read(it)).children.map(({ key, state }: { key: string; state: string }) => [key, state]);
const eventually = (it: Shop, status: string) =>
  until(`the instance is ${status}`, async () => (await read(it)).status === status);
const isThere = (kind: KindName, id: string) =>
  until(`there is the ${kind}`, async () => (await world.repo.get(kind, id)) !== undefined);

/** Brings up all that goes before the application. */
async function dataIsUp({ child }: Shop): Promise<void> {
  await isThere('volume', child.files);
  await world.observe('volume', child.files, { phase: 'available' });
  await isThere('database', child.db);
  await world.observe('database', child.db, { phase: 'running' });
  await isThere('application', child.web);
}

async function deploymentIs(it: Shop, phase: 'succeeded' | 'failed'): Promise<void> {
  const app = await world.repo.get('application', it.child.web);
  const error = phase === 'failed' ? { error: { code: 'image', message: 'There is no such image' } } : {};
  await world.observe('deployment', app!.desired.deployment_id!, { phase, ...error });
  const serves = phase === 'succeeded' ? { current_deployment_id: app!.desired.deployment_id! } : {};
  await world.observe('application', it.child.web, {
    phase: phase === 'succeeded' ? 'running' : 'failed',
    consecutive_failures: 0,
    ready_replicas: 1,
    crash_loop_counted: false,
    ...serves,
  });
}

describe('an instance', () => {
  it('makes a wave once the one before is up, and is running once all is', async () => {
    const it = await shop();
    await isThere('volume', it.child.files);
    expect(await statesOf(it)).toEqual([
      ['files', 'starting'],
      ['db', 'waiting'],
      ['web', 'waiting'],
    ]);
    expect(await world.repo.get('database', it.child.db)).toBeUndefined();
    await dataIsUp(it);
    const { data: deployments } = await owner.get(`/applications/${it.child.web}/deployments`);
    expect(deployments).toMatchObject([{ number: 1, trigger: 'template' }]);
    const labels = { team: 'files' };
    expect((await owner.get(`/volumes/${it.child.files}`)).data).toMatchObject({ labels });
    expect((await owner.get(`/databases/${it.child.db}`)).data.labels).toEqual({ team: 'data' });
    expect((await owner.get(`/applications/${it.child.web}`)).data.labels).toEqual({ team: 'web' });
    expect((await read(it)).status).toBe('deploying');
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    expect(await read(it)).toMatchObject({ ready_children: 3, conditions: [{ type: 'Ready', status: 'true' }] });
    const link = { id: it.id, name: 'shop' };
    expect((await owner.get(`/applications/${it.child.web}/dependencies`)).data.template_instance).toEqual(link);
    expect((await owner.get(`/databases/${it.child.db}/dependencies`)).data.template_instance).toEqual(link);
    expect((await owner.get(`/templates/${template}`)).data.status).toBe('used');
  });

  it('says what has failed, tells its users, and goes on when that is mended', async () => {
    const it = await shop();
    await dataIsUp(it);
    await deploymentIs(it, 'failed');
    await eventually(it, 'failed');
    const { conditions } = await read(it);
    expect(conditions[0]).toMatchObject({
      reason: 'ChildFailed',
      message: 'application web: Deployment 1 failed: There is no such image',
    });
    await until('its users are notified', async () =>
      (await owner.get('/notifications')).data.some(
        (one: { kind: string; resource: { id: string } }) =>
          one.kind === 'template_instance_failed' && one.resource.id === it.id,
      ),
    );
    await owner.put(`/applications/${it.child.web}`, { image_url: 'web:2' });
    await owner.post(`/applications/${it.child.web}/deploy`);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    await owner.post(`/applications/${it.child.web}/stop`);
    await eventually(it, 'degraded');
  });

  it('waits for a name that somebody else took meanwhile', async () => {
    const it = await shop();
    await isThere('volume', it.child.files);
    const fields = { project_id: it.project, environment_id: it.environment, server_id: it.server };
    const { data: other } = await owner.post('/databases', { ...fields, name: 'SHOP-DB', type: 'redis' });
    await world.observe('volume', it.child.files, { phase: 'available' });
    await eventually(it, 'failed');
    const [ready, reconciling] = (await read(it)).conditions;
    expect(ready).toMatchObject({ reason: 'NameTaken', message: expect.stringContaining('SHOP-DB') });
    expect(reconciling).toMatchObject({ type: 'Reconciling', status: 'true' });
    expect(await world.repo.get('database', other.id)).toBeDefined();
    expect(await world.repo.get('database', it.child.db)).toBeUndefined();
  });

  it('mounts the data that a restore has given to a volume, also in an application that is made after it', async () => {
    const it = await shop();
    await isThere('volume', it.child.files);
    const restored = randomUUID();
    await world.repo.change('volume', it.child.files, (draft) => void (draft.data_id = restored));
    await dataIsUp(it);
    expect((await world.repo.get('application', it.child.web))?.desired.mounts).toEqual([
      { volume_id: it.child.files, data_id: restored, path: '/files', read_only: false },
    ]);
  });

  it('is not judged by a child of another one, and makes no deleted child anew', async () => {
    const it = await shop();
    await dataIsUp(it);
    await until(
      'what was made is remembered',
      async () => (await world.repo.get('template_instance', it.id))?.observed?.made.includes(it.child.web) === true,
    );
    await release('application', it.child.web);
    await eventually(it, 'failed');
    expect((await read(it)).conditions[0]).toMatchObject({ reason: 'ChildGone' });
    expect(await world.repo.get('application', it.child.web)).toBeUndefined();
  });
});

/** Deletes an object at once, as its controller would in the end. */
async function release(kind: 'application' | 'database' | 'volume', id: string): Promise<void> {
  const it = await world.repo.get(kind, id);
  const unit = world.repo.begin();
  unit.requestDelete(it!);
  for (const finalizer of it!.meta.finalizers) unit.release(it!, finalizer);
  expect(await unit.commit()).toMatchObject({ committed: true });
}

const isDeleting = (kind: KindName, id: string) =>
  until(`the ${kind} is being deleted`, async () => {
    const it = await world.repo.get(kind, id);
    return it?.meta.deletionRequestedAt !== undefined;
  });

/** An application that is no part of the instance, and mounts its volume in place of that which did. */
async function besideOf(it: Shop, env: Record<string, string> = {}): Promise<void> {
  const fields = { project_id: it.project, environment_id: it.environment, server_id: it.server, env };
  const image = { source_type: 'image', image_url: 'web:1' };
  const { data } = await owner.post('/applications', { ...fields, ...image, name: 'beside' });
  expect((await owner.post(`/volumes/${it.child.files}/unbind`, {})).status).toBe(200);
  const mount = { workload_type: 'application', workload_id: data.id, mount_path: '/files' };
  expect((await owner.post(`/volumes/${it.child.files}/bind`, mount)).status).toBe(200);
}

/** Waits until the volume belongs to nobody. */
async function isLeft({ child }: Shop): Promise<void> {
  const volume = await until('the volume is left', async () => {
    const one = await world.repo.get('volume', child.files);
    return one?.desired.template_instance_id === undefined ? one : undefined;
  });
  expect(volume.meta.deletionRequestedAt).toBeUndefined();
}

describe('a deletion', () => {
  it('takes the last wave first, and is over when all is gone', async () => {
    const it = await shop();
    await dataIsUp(it);
    expect((await owner.delete(`/template-instances/${it.id}`)).data.status).toBe('deleting');
    await isDeleting('application', it.child.web);
    expect((await world.repo.get('database', it.child.db))?.meta.deletionRequestedAt).toBeUndefined();
    await release('application', it.child.web);
    await isDeleting('database', it.child.db);
    expect((await world.repo.get('volume', it.child.files))?.meta.deletionRequestedAt).toBeUndefined();
    await release('database', it.child.db);
    await isDeleting('volume', it.child.files);
    expect((await owner.get(`/template-instances/${it.id}`)).status).toBe(200);
    await release('volume', it.child.files);
    await until('it is gone', async () => (await owner.get(`/template-instances/${it.id}`)).status === 404);
  });

  it('leaves volumes and databases to nobody, if that is asked for', async () => {
    const it = await shop();
    await dataIsUp(it);
    await owner.delete(`/template-instances/${it.id}?keep_data=true`);
    await isDeleting('application', it.child.web);
    await release('application', it.child.web);
    await until('it is gone', async () => (await owner.get(`/template-instances/${it.id}`)).status === 404);
    for (const [kind, id] of [
      ['volume', it.child.files],
      ['database', it.child.db],
    ] as const) {
      const left = await world.repo.get(kind, id);
      expect(left?.meta.deletionRequestedAt).toBeUndefined();
      expect(left?.desired.template_instance_id).toBeUndefined();
      expect(left?.meta.owners.map((owning) => owning.kind)).toEqual(['environment']);
    }
  });

  it('that has begun leaves what is still there, once that is asked for', async () => {
    const it = await shop();
    await dataIsUp(it);
    const path = `/template-instances/${it.id}`;
    await owner.delete(path);
    await isDeleting('application', it.child.web);
    expect((await owner.delete(`${path}?keep_data=true`)).status).toBe(200);
    await owner.delete(path);
    await release('application', it.child.web);
    await until('it is gone', async () => (await owner.get(path)).status === 404);
    for (const [kind, id] of [
      ['volume', it.child.files],
      ['database', it.child.db],
    ] as const)
      expect((await world.repo.get(kind, id))?.meta.deletionRequestedAt).toBeUndefined();
  });

  it('is refused while others use its data, unless that is to stay', async () => {
    const it = await shop();
    await dataIsUp(it);
    await besideOf(it, { DATABASE_URL: '${databases.shop-db.url}' });
    const path = `/template-instances/${it.id}`;
    const { status, body } = await owner.delete(path);
    expect([status, body.error?.message]).toEqual([
      409,
      expect.stringContaining('volume shop-files (application beside), database shop-db (application beside)'),
    ]);
    expect((await world.repo.get('template_instance', it.id))?.meta.deletionRequestedAt).toBeUndefined();
    expect((await owner.delete(`${path}?keep_data=true`)).status).toBe(200);
  });

  it('leaves what others use meanwhile, and says so', async () => {
    const it = await shop();
    await dataIsUp(it);
    await owner.delete(`/template-instances/${it.id}`);
    await isDeleting('application', it.child.web);
    await release('application', it.child.web);
    await isDeleting('database', it.child.db);
    await besideOf(it);
    await release('database', it.child.db);
    await isLeft(it);
    await until('it is gone', async () => (await owner.get(`/template-instances/${it.id}`)).status === 404);
    await until('the volume says so', async () => {
      const { data } = await owner.get(`/volumes/${it.child.files}/events`);
      return data.some(({ reason, message }: { reason: string; message: string }) => {
        return reason === 'LeftBehind' && message.includes('used by application beside');
      });
    });
  });

  it('refuses a query that it does not know', async () => {
    expect((await owner.delete(`/template-instances/${randomUUID()}?keep_data=yes`)).status).toBe(404);
    const it = await shop();
    expect((await owner.delete(`/template-instances/${it.id}?keep_data=yes`)).status).toBe(400);
  });
});

describe('a change', () => {
  const text = (image: string, changes: { type?: string; files?: boolean; memory?: string } = {}): string =>
    [
      'apiVersion: setpoint/v1',
      'kind: Template',
      `metadata: {name: notes, version: "${image}"}`,
      'variables: [{name: TOKEN, type: secret, generate: true}, {name: MODE, default: plain}]',
      changes.files === false ? '' : 'volumes: [{name: files}]',
      `databases: [{name: db, type: ${changes.type ?? 'redis'}, memory_limit: ${changes.memory ?? '64m'}}]`,
      'applications:',
      '  - name: web',
      `    image_url: ${image}`,
      '    exposed_port: 8080',
      '    env: {DATABASE_URL: "${databases.db.url}", TOKEN: "${TOKEN}", MODE: "${MODE}"}',
      changes.files === false ? '' : '    volumes: [{volume: files, path: /files}]',
    ].join('\n');
  let number = 0;

  /** An instance that is all up, of a template of its own. */
  async function notes(): Promise<Shop & { path: string; template: string }> {
    const name = `notes-${++number}`;
    const of = (await owner.post('/templates', { name, content: text('notes:1') })).data.id;
    const it = await shop('notes', of);
    await dataIsUp(it);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    return { ...it, path: `/template-instances/${it.id}`, template: of };
  }
  const deployed = (it: Shop, count: number) =>
    until(`there are ${count} deployments`, async () => {
      const app = await world.repo.get('application', it.child.web);
      return app?.desired.next_deployment_number === count + 1;
    });
  const envOf = async (it: Shop) => (await owner.get(`/applications/${it.child.web}/env`)).data.env;
  const actions = (plan: { steps: { key: string; action: string }[] }) =>
    Object.fromEntries(plan.steps.map(({ key, action }) => [key, action]));

  it('is planned field by field, done in waves, and nothing the second time; a rollback brings the former back', async () => {
    const it = await notes();
    const { TOKEN } = await envOf(it);
    await owner.put(`/templates/${it.template}`, { content: text('notes:2', { memory: '128m' }) });
    const body = { template_id: it.template, variables: { MODE: 'fancy' } };
    const { data: planned } = await owner.put(it.path, { ...body, dry_run: true });
    expect(actions(planned.plan)).toEqual({
      'volumes.files': 'unchanged',
      'databases.db': 'update',
      'applications.web': 'update',
    });
    expect(planned.plan.steps[1]).toMatchObject({ interrupts: 'It is restarted', loses_data: null });
    const web = planned.plan.steps.at(-1);
    expect(web.interrupts).toContain('volume');
    expect(web.fields).toEqual([
      { field: 'image_url', before: 'notes:1', after: 'notes:2', secret: false, by_hand: false, declared_by: null },
      { field: 'env.MODE', before: null, after: null, secret: true, by_hand: false, declared_by: null },
    ]);
    expect((await read(it)).revision).toBe(1);

    const { status, data: changed } = await owner.put(it.path, body);
    expect([status, changed.revision, changed.template_version]).toEqual([200, 2, 'notes:2']);
    await deployed(it, 2);
    const { data: app } = await owner.get(`/applications/${it.child.web}`);
    expect(app.image_url).toBe('notes:2');
    expect(await envOf(it)).toMatchObject({ TOKEN, MODE: 'fancy' });
    expect((await owner.get(`/databases/${it.child.db}`)).data.memory_limit).toBe('128m');
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    const before = await read(it);
    const again = await owner.put(it.path, body);
    expect(again.data.plan.changes).toBe(false);
    expect((await read(it)).resource_version).toBe(before.resource_version);

    const { data: back } = await owner.post(`${it.path}/rollback`, {});
    expect([back.revision, back.revisions.map((one: { revision: number }) => one.revision)]).toEqual([3, [2, 1]]);
    await deployed(it, 3);
    expect((await owner.get(`/applications/${it.child.web}`)).data.image_url).toBe('notes:1');
    expect(await envOf(it)).toMatchObject({ TOKEN, MODE: 'plain' });
    expect((await owner.post(`${it.path}/rollback`, { revision: 9 })).status).toBe(409);
  });

  it('that fails stops there and says why, and goes on with a revision that mends it', async () => {
    const it = await notes();
    await owner.put(`/templates/${it.template}`, { content: text('notes:gone') });
    await owner.put(it.path, { template_id: it.template });
    await deployed(it, 2);
    await deploymentIs(it, 'failed');
    await eventually(it, 'failed');
    expect((await read(it)).conditions[0]).toMatchObject({ reason: 'ChildFailed' });
    await owner.post(`${it.path}/rollback`, {});
    await deployed(it, 3);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
  });

  it('that loses data is done only where each step of it is named, one object in the place of the other', async () => {
    const it = await notes();
    await owner.put(`/templates/${it.template}`, { content: text('notes:1', { type: 'postgres', files: false }) });
    const body = { template_id: it.template };
    const refused = await owner.put(it.path, { ...body, force: ['databases.db'] });
    expect(refused.status).toBe(409);
    expect(refused.body.error?.details).toMatchObject([
      { reason: 'force_needed', message: expect.stringContaining('volumes.files') },
    ]);
    const { data } = await owner.put(it.path, { ...body, force: ['databases.db', 'volumes.files'] });
    expect(actions(data.plan)).toEqual({
      'databases.db': 'replace',
      'applications.web': 'update',
      'volumes.files': 'delete',
    });
    await isDeleting('database', it.child.db);
    expect((await world.repo.get('volume', it.child.files))?.meta.deletionRequestedAt).toBeUndefined();
    await release('database', it.child.db);
    const { children } = await read(it);
    const db = children.find(({ key }: { key: string }) => key === 'db').id;
    expect(db).not.toBe(it.child.db);
    await isThere('database', db);
    await world.observe('database', db, { phase: 'running' });
    await deployed(it, 2);
    await deploymentIs(it, 'succeeded');
    await isDeleting('volume', it.child.files);
    await release('volume', it.child.files);
    await eventually(it, 'running');
  });

  it('leaves a volume that it does not declare any more and others use, and replaces no database that they use', async () => {
    const it = await notes();
    await besideOf(it, { DATABASE_URL: '${databases.notes-db.url}' });
    const force = ['volumes.files', 'databases.db'];
    await owner.put(`/templates/${it.template}`, { content: text('notes:1', { type: 'postgres' }) });
    const { status, body } = await owner.put(it.path, { template_id: it.template, force });
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('notes-db cannot be replaced')]);
    await owner.put(`/templates/${it.template}`, { content: text('notes:1', { files: false }) });
    expect((await owner.put(it.path, { template_id: it.template, force })).status).toBe(200);
    await isLeft(it);
    await eventually(it, 'running');
  });

  it('that dropped a part and failed is rolled back with that part as it is', async () => {
    const it = await notes();
    const dropped = 'databases: [{name: db, type: redis, memory_limit: 64m}]';
    const without = text('notes:gone').replace(dropped, '').replace('DATABASE_URL: "${databases.db.url}", ', '');
    await owner.put(`/templates/${it.template}`, { content: without });
    const body = { template_id: it.template, force: ['databases.db'] };
    expect((await owner.put(it.path, body)).status).toBe(200);
    await deployed(it, 2);
    await deploymentIs(it, 'failed');
    await eventually(it, 'failed');
    // what is left behind is no change of the present revision
    expect((await owner.put(it.path, { template_id: it.template })).data.plan.changes).toBe(false);
    const { status, data } = await owner.post(`${it.path}/rollback`, {});
    expect([status, actions(data.plan)]).toEqual([
      200,
      { 'volumes.files': 'unchanged', 'databases.db': 'update', 'applications.web': 'update' },
    ]);
    expect(data.children.find(({ key }: { key: string }) => key === 'db').id).toBe(it.child.db);
    await dataIsUp(it);
    await deployed(it, 3);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    expect((await world.repo.get('database', it.child.db))?.meta.deletionRequestedAt).toBeUndefined();
  });

  it('that mounts a volume is refused while the application has several replicas by hand', async () => {
    const name = `notes-${++number}`;
    const of = (await owner.post('/templates', { name, content: text('notes:1', { files: false }) })).data.id;
    const place = await world.place(owner);
    const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
    const { data: made } = await owner.post(`/templates/${of}/instantiate`, { ...fields, name: 'notes' });
    const idOf = (key: string): string => made.children.find((one: { key: string }) => one.key === key).id;
    await isThere('database', idOf('db'));
    await world.observe('database', idOf('db'), { phase: 'running' });
    await isThere('application', idOf('web'));
    expect((await owner.put(`/applications/${idOf('web')}`, { replicas: 2 })).status).toBe(200);
    await owner.put(`/templates/${of}`, { content: text('notes:1') });
    const { status, body } = await owner.put(`/template-instances/${made.id}`, { template_id: of });
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('web has 2 replicas')]);
  });

  it('to a name that somebody else took meanwhile says so, and ends nowhere else', async () => {
    const it = await notes();
    const fields = { project_id: it.project, environment_id: it.environment, server_id: it.server };
    await owner.put(`/applications/${it.child.web}`, { name: 'mine' });
    await until('the drift is shown', async () => (await read(it)).drifted.length > 0);
    const other = { ...fields, name: 'notes-web', source_type: 'image', image_url: 'web:1' };
    expect((await owner.post('/applications', other)).status).toBe(201);
    expect((await owner.put(it.path, { drift: 'correct' })).status).toBe(200);
    await eventually(it, 'degraded');
    expect((await read(it)).conditions[0]).toMatchObject({
      reason: 'NameTaken',
      message: expect.stringContaining('notes-web'),
    });
  });

  it('to a host that another project has by now takes no path of it', async () => {
    const name = `site-${++number}`;
    const domain = '    domains: [{host: theirs.example.test, path: /login, tls: "off"}]';
    const site = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'applications:',
      '  - name: web',
      '    image_url: web:1',
    ];
    const of = (await owner.post('/templates', { name, content: [...site, domain].join('\n') })).data.id;
    const place = await world.place(owner);
    const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
    const made = (await owner.post(`/templates/${of}/instantiate`, { ...fields, name: 'site' })).data;
    const web = made.children[0].id;
    await isThere('application', web);
    expect((await owner.put(`/applications/${web}`, { domains: [] })).status).toBe(200);
    const theirs = (await owner.post('/projects', { name: `theirs-${number}` })).data.id;
    const environment_id = (await owner.post(`/projects/${theirs}/environments`, { name: 'live' })).data.id;
    const app = { ...fields, project_id: theirs, environment_id, name: 'shop', source_type: 'image', image_url: 'a:1' };
    const domains = [{ host: 'theirs.example.test', tls: 'off' }];
    expect((await owner.post('/applications', { ...app, domains })).status).toBe(201);
    expect((await owner.put(`/template-instances/${made.id}`, { drift: 'correct' })).status).toBe(200);
    const ready = async () => (await owner.get(`/template-instances/${made.id}`)).data.conditions[0];
    await until('it says so', async () => (await ready()).reason === 'NameTaken');
    expect((await ready()).message).toContain('theirs.example.test is used: a host of a server belongs to one project');
    expect((await ready()).message).not.toContain('shop');
    expect((await owner.get(`/applications/${web}`)).data.domains).toEqual([]);
    expect((await owner.put(`/template-instances/${made.id}`, { template_id: of })).status).toBe(409);
  });

  it('by hand is shown field by field, and changed back where that is asked for', async () => {
    const it = await notes();
    await owner.put(`/applications/${it.child.web}`, { image_url: 'notes:mine', memory_limit: '1g' });
    await until('the drift is shown', async () => (await read(it)).drifted.length > 0);
    expect((await read(it)).drifted).toEqual([
      {
        kind: 'application',
        key: 'web',
        id: it.child.web,
        field: 'image_url',
        declared: 'notes:1',
        live: 'notes:mine',
      },
    ]);
    expect((await owner.put(it.path, { drift: 'correct' })).data.drift).toBe('correct');
    await until('it is changed back', async () => (await read(it)).drifted.length === 0);
    const { data: app } = await owner.get(`/applications/${it.child.web}`);
    expect(app).toMatchObject({ image_url: 'notes:1', memory_limit: '1g' });
    await owner.put(it.path, { drift: 'ignore' });
    await owner.put(`/applications/${it.child.web}`, { image_url: 'notes:mine' });
    expect((await owner.get(`/applications/${it.child.web}`)).data.image_url).toBe('notes:mine');
  });

  it('waits with a build while builds have used up what the project may take', async () => {
    const name = `built-${++number}`;
    const content = [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'variables: [{name: BRANCH, default: main}]',
      'applications:',
      '  - {name: web, repository_url: "https://git.example.com/a.git", branch: "${BRANCH}", dockerfile_path: Dockerfile, build_context: .}',
    ].join('\n');
    const template_id = (await owner.post('/templates', { name, content })).data.id;
    const place = await world.place(owner);
    const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
    const made = (await owner.post(`/templates/${template_id}/instantiate`, { ...fields, name })).data;
    const it = { id: made.id, child: { web: made.children[0].id } } as Shop;
    await isThere('application', it.child.web);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    const budget = (minutes: number) =>
      owner.put('/settings', { budgets: { project: { build_minutes_per_day: minutes } } });
    const { data: settings } = await owner.get('/settings');
    const source = { repository_url: 'https://git.example.com/b.git', branch: 'main' };
    const build = { source_type: 'git', dockerfile_path: 'Dockerfile', build_context: '.' };
    const { data: other } = await owner.post('/applications', { ...fields, ...source, ...build, name: 'other' });
    expect((await owner.post(`/applications/${other.id}/deploy`, {})).status).toBeLessThan(300);
    expect((await budget(1)).status).toBe(200);
    expect((await owner.put(`/template-instances/${it.id}`, { variables: { BRANCH: 'next' } })).status).toBe(200);
    await until('it waits', async () => (await read(it)).conditions[0].reason === 'BuildsUsedUp');
    expect((await world.repo.get('application', it.child.web))?.desired.next_deployment_number).toBe(2);
    expect((await budget(settings.budgets.project.build_minutes_per_day)).status).toBe(200);
  });

  it('takes no login off a domain that a person has protected, and puts back the one that it declares', async () => {
    const name = `site-${++number}`;
    const of = (login: string): string =>
      [
        'apiVersion: setpoint/v1',
        'kind: Template',
        'variables: [{name: HOST, type: domain}]',
        'applications:',
        '  - name: web',
        '    image_url: web:1',
        `    domains: [{host: "\${HOST}", tls: "off"${login}}]`,
      ].join('\n');
    const template_id = (await owner.post('/templates', { name, content: of('') })).data.id;
    const place = await world.place(owner);
    const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
    const variables = { HOST: `${name}-a.example.test` };
    const made = (await owner.post(`/templates/${template_id}/instantiate`, { ...fields, name, variables })).data;
    const [path, web] = [`/template-instances/${made.id}`, `/applications/${made.children[0].id}`];
    await isThere('application', made.children[0].id);
    const usersOf = async () =>
      (await owner.get(web)).data.domains.map((one: { basic_auth: object[] }) => one.basic_auth);
    const drifted = async () => (await owner.get(path)).data.drifted;
    const protectedBy = (username: string) =>
      owner.put(web, {
        domains: [{ host: variables.HOST, tls: 'off', basic_auth: [{ username, password: 'a long password' }] }],
        name: 'mine',
      });
    expect((await owner.put(path, { drift: 'correct' })).status).toBe(200);
    expect((await protectedBy('ada')).status).toBe(200);
    await until('its name is back', async () => (await owner.get(web)).data.name !== 'mine');
    expect([await usersOf(), await drifted()]).toEqual([[[{ username: 'ada' }]], []]);

    variables.HOST = `${name}-b.example.test`;
    const { data: planned } = await owner.put(path, { variables });
    expect(planned.plan.steps).toMatchObject([{ action: 'update', fields: [{ field: 'domains', by_hand: false }] }]);
    await until('it has the host', async () => (await owner.get(web)).data.domains[0].host === variables.HOST);
    expect(await usersOf()).toEqual([[{ username: 'ada' }]]);

    await owner.put(`/templates/${template_id}`, {
      content: of(', basic_auth: [{username: eve, password: "another long one"}]'),
    });
    expect((await owner.put(path, { template_id })).status).toBe(200);
    await until('it has the declared user', async () => (await usersOf())[0][0].username === 'eve');
    expect((await protectedBy('ada')).status).toBe(200);
    await until('it is as declared', async () => (await usersOf())[0][0].username === 'eve');
    expect((await owner.put(path, { template_id })).data.plan.changes).toBe(false);
  });

  it('runs no former version of an application that was stopped where its change is made by hand and deployed', async () => {
    const it = await notes();
    const at = `/applications/${it.child.web}`;
    expect((await owner.post(`${at}/stop`, {})).status).toBe(200);
    await owner.put(`/templates/${it.template}`, { content: text('notes:2') });
    expect((await owner.put(it.path, { template_id: it.template })).status).toBe(200);
    await until('it says how', async () => (await read(it)).conditions[0].message.includes('make its change by hand'));
    expect((await owner.put(at, { image_url: 'notes:2' })).status).toBe(200);
    expect((await owner.get(at)).data.run).toBe('stopped');
    expect((await owner.post(`${at}/deploy`, {})).status).toBe(200);
    await deployed(it, 2);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    expect((await world.repo.get('application', it.child.web))?.desired.next_deployment_number).toBe(3);
  });

  it('starts no application that a person has stopped, and is done once it is started', async () => {
    const it = await notes();
    const at = `/applications/${it.child.web}`;
    const stop = () => owner.post(`${at}/stop`, {});
    const start = () => owner.post(`${at}/start`, {});
    const next = async () => (await world.repo.get('application', it.child.web))?.desired.next_deployment_number;
    const isAtRest = async (count: number): Promise<void> =>
      expect([(await owner.get(at)).data.run, await next()]).toEqual(['stopped', count + 1]);
    expect((await stop()).status).toBe(200);
    await owner.put(`/templates/${it.template}`, { content: text('notes:2') });
    expect((await owner.put(it.path, { template_id: it.template })).status).toBe(200);
    await until('the instance says so', async () => (await read(it)).conditions[0].message.includes('changed then'));
    expect((await read(it)).conditions[0]).toMatchObject({ reason: 'ChildStopped' });
    expect((await owner.get(at)).data.image_url).toBe('notes:1');
    await isAtRest(1);
    expect((await start()).status).toBe(200);
    await deployed(it, 2);
    await deploymentIs(it, 'succeeded');
    await eventually(it, 'running');
    expect((await owner.get(at)).data.image_url).toBe('notes:2');

    expect((await owner.put(it.path, { drift: 'correct' })).status).toBe(200);
    expect((await stop()).status).toBe(200);
    await owner.put(at, { name: 'mine' });
    await owner.patch(`${at}/env`, { MODE: 'quiet' });
    // what starts nothing is changed back at once
    await until('its name is back', async () => (await owner.get(at)).data.name === 'notes-web');
    await until('the rest is shown', async () => (await read(it)).drifted.length === 1);
    expect((await read(it)).drifted).toMatchObject([{ field: 'env.MODE' }]);
    await isAtRest(2);
    expect(await envOf(it)).toMatchObject({ MODE: 'quiet' });
    expect((await start()).status).toBe(200);
    await until('it is as declared', async () => (await envOf(it)).MODE === 'plain');
    expect((await owner.get(at)).data.run).toBe('running');
  });
});

describe('a function of an instance', () => {
  const text = (code: string, more = ''): string =>
    [
      'apiVersion: setpoint/v1',
      'kind: Template',
      'metadata: {name: greeting}',
      'databases: [{name: db, type: redis}]',
      'functions:',
      '  - name: hello',
      '    runtime: node20',
      `    code: ${JSON.stringify(code)}`,
      '    labels: {team: web}',
      '    env: {DATABASE_URL: "${databases.db.url}"}',
      ...(more === '' ? [] : [`    ${more}`]),
    ].join('\n');
  const code = 'export default (request) => new Response(`Hello ${request.method}`);';

  it('is made with a version, is up once that serves, and gets another one by a change of its code', async () => {
    const { data: of } = await owner.post('/templates', { content: text(code), name: `greeting-${randomUUID()}` });
    const place = await world.place(owner);
    const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
    const made = await owner.post(`/templates/${of.id}/instantiate`, { ...fields, name: 'greeting' });
    const it = { id: made.data.id } as Shop;
    const idOf = (key: string): string => made.data.children.find((one: { key: string }) => one.key === key).id;
    await isThere('database', idOf('db'));
    await world.observe('database', idOf('db'), { phase: 'running' });
    await isThere('function', idOf('hello'));
    const serves = async (): Promise<void> => {
      const { desired } = (await world.repo.get('function', idOf('hello')))!;
      const built = { phase: 'ready' as const, image: 'setpoint/hello:1', image_digest: 'sha256:1' };
      await world.observe('function_version', desired.version_id!, built);
      await world.observe('function', idOf('hello'), { phase: 'running', active_version_id: desired.version_id! });
    };
    expect((await owner.get(`/functions/${idOf('hello')}`)).data).toMatchObject({
      name: 'greeting-hello',
      code,
      env: { DATABASE_URL: '${databases.greeting-db.url}' },
      labels: { team: 'web' },
      run: 'running',
    });
    expect((await read(it)).status).toBe('deploying');
    await serves();
    await eventually(it, 'running');
    const link = { id: it.id, name: 'greeting' };
    expect((await owner.get(`/functions/${idOf('hello')}/dependencies`)).data.template_instance).toEqual(link);

    await owner.put(`/functions/${idOf('hello')}`, { timeout_seconds: 5, code: 'export default 1' });
    await until('the drift is shown', async () => (await read(it)).drifted.length > 0);
    expect((await read(it)).drifted).toMatchObject([{ kind: 'function', key: 'hello', field: 'code' }]);

    const content = text(`${code} // again`, 'trigger_type: cron\n    schedule: "0 4 * * *"');
    await owner.put(`/templates/${of.id}`, { content });
    const { data: planned } = await owner.put(`/template-instances/${it.id}`, { template_id: of.id, dry_run: true });
    expect(planned.plan.steps).toMatchObject([
      { action: 'unchanged' },
      {
        action: 'update',
        kind: 'function',
        fields: [{ field: 'code' }, { field: 'trigger_type', before: 'http', after: 'cron 0 4 * * * UTC' }],
      },
    ]);
    const before = (await owner.get(`/functions/${idOf('hello')}/versions`)).data.length;
    await owner.put(`/template-instances/${it.id}`, { template_id: of.id });
    await until('there is another version', async () => {
      const { data } = await owner.get(`/functions/${idOf('hello')}/versions`);
      return data.length === before + 1;
    });
    expect((await owner.get(`/functions/${idOf('hello')}`)).data).toMatchObject({
      schedule: '0 4 * * *',
      timeout_seconds: 5,
    });
    await serves();
    await eventually(it, 'running');

    // what a person has stopped gets another version once it is started
    expect((await owner.post(`/functions/${idOf('hello')}/stop`, {})).status).toBe(200);
    await owner.put(`/templates/${of.id}`, { content: text(`${code} // once more`) });
    await owner.put(`/template-instances/${it.id}`, { template_id: of.id });
    await until('it says so', async () => (await read(it)).conditions[0].message.includes('changed then'));
    expect((await owner.get(`/functions/${idOf('hello')}/versions`)).data).toHaveLength(before + 1);
    expect((await owner.get(`/functions/${idOf('hello')}`)).data.run).toBe('stopped');
    await owner.post(`/functions/${idOf('hello')}/start`, {});
    await until('its code is the declared one', async () => {
      const { data } = await owner.get(`/functions/${idOf('hello')}`);
      return data.code.endsWith('once more');
    });
    await serves();
    await eventually(it, 'running');
    await owner.delete(`/template-instances/${it.id}?keep_data=true`);
    await until('the function is to go', async () => {
      const one = await world.repo.get('function', idOf('hello'));
      return one === undefined || one.meta.deletionRequestedAt !== undefined;
    });
    expect((await world.repo.get('database', idOf('db')))?.meta.deletionRequestedAt).toBeUndefined();
  });
});
