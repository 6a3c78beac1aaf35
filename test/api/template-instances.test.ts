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
  const controller = templateInstanceController({ buildDeadlineMs: 60_000, ownPorts: [] });
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

async function shop(name = 'shop'): Promise<Shop> {
  const place = await world.place(owner);
  const fields = { project_id: place.project, environment_id: place.environment, server_id: place.server };
  const made = await owner.post(`/templates/${template}/instantiate`, { ...fields, name });
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

  it('refuses a query that it does not know', async () => {
    expect((await owner.delete(`/template-instances/${randomUUID()}?keep_data=yes`)).status).toBe(404);
    const it = await shop();
    expect((await owner.delete(`/template-instances/${it.id}?keep_data=yes`)).status).toBe(400);
  });
});
