import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { environmentController } from '../../controllers/environment/reconcile.ts';
import { previewController } from '../../controllers/preview/reconcile.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { lead } from '../harness/leading.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';

const running = new AsyncDisposableStack();
const repository = 'https://git.test/team/shop.git';
const fork_url = 'https://git.test/anna/shop.git';
const one = 'a'.repeat(40);
const other = 'b'.repeat(40);
let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  const previews = previewController({ buildDeadlineMs: 60_000 });
  running.use(await lead(world, world.clock, environmentController(world.keyring), previews));
  owner = await world.owner();
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

/** A project with an environment that has an application of the repository, and one of an image. */
async function shop() {
  const place = await world.place(owner);
  const at = { project_id: place.project, server_id: place.server };
  const source = { source_type: 'git', repository_url: repository, branch: 'main', dockerfile_path: 'Dockerfile' };
  const domains = [{ host: `${randomUUID()}.example.org` }];
  const more = { env: { TOKEN: 'a very secret value' }, exposed_port: 8080, domains };
  const web = (await owner.post('/applications', { ...at, ...source, name: 'web', ...more })).data.id;
  await owner.post('/applications', { ...at, name: 'cache', source_type: 'image', image_url: 'ghcr.io/cache:1' });
  return { ...place, web };
}

const appsOf = async (environment: string) =>
  (await owner.get('/applications?limit=500')).data.filter(
    (it: { environment_id: string }) => it.environment_id === environment,
  );
const environmentsOf = async (project: string) => (await owner.get(`/projects/${project}/environments`)).data;
const eventually = async (id: string, status: string) => {
  await until(`the preview is ${status}`, async () => (await owner.get(`/previews/${id}`)).data?.status === status);
  return (await owner.get(`/previews/${id}`)).data;
};

describe('a preview of a branch', () => {
  it('is a copy whose applications have the branch, no domain and no port on the server, and goes with all of it', async () => {
    const { project, web } = await shop();
    const made = await owner.post('/previews', { project_id: project, name: 'pr-1', branch: 'feature' });
    expect(made.status).toBe(201);
    const it = await eventually(made.data.id, 'deploying');
    const apps = await appsOf(it.preview_environment_id);
    const [copy] = apps.filter(({ name }: { name: string }) => name === 'web');
    expect(apps).toHaveLength(2);
    expect(copy).toMatchObject({ branch: 'feature', repository_url: repository, autodeploy: true, domains: [] });
    expect((await owner.get(`/applications/${copy.id}/env`)).data.env).toMatchObject({ TOKEN: 'a very secret value' });
    expect((await world.repo.get('application', copy.id))?.desired.unpublished).toBe(true);
    expect((await owner.get(`/applications/${web}`)).data).toMatchObject({ branch: 'main', autodeploy: false });
    for (const { deployment_id: id } of apps) {
      expect((await owner.get(`/deployments/${id}`)).data).toMatchObject({ trigger: 'manual', number: 1 });
      await world.observe('deployment', id, { phase: 'succeeded', image: 'i', image_digest: 'd', commit: one });
    }
    await eventually(made.data.id, 'ready');
    expect((await owner.delete(`/previews/${made.data.id}`)).status).toBe(200);
    await until('its environment is being deleted', async () => {
      const environment = await world.repo.get('environment', it.preview_environment_id);
      return environment === undefined || environment.meta.deletionRequestedAt !== undefined;
    });
  });
});

describe('SEC-66: a preview of a fork', () => {
  it('has no environment before a person approves the very commit that is asked for', async () => {
    const { project } = await shop();
    const body = { project_id: project, name: 'pr-3', branch: 'patch', fork_url, commit: one };
    const made = await owner.post('/previews?wait=20', body);
    expect(made.data).toMatchObject({ status: 'awaiting_approval', preview_environment_id: null, commit: one });
    expect(await environmentsOf(project)).toHaveLength(1);
    const approve = `/previews/${made.data.id}/approve`;
    expect((await owner.post(approve, { commit: other })).status).toBe(409);
    expect(await environmentsOf(project)).toHaveLength(1);
    const approved = await owner.post(approve, { commit: one });
    expect(approved.data).toMatchObject({ approved_commit: one, approved_by: made.data.requested_by });
    const it = await eventually(made.data.id, 'deploying');
    const [web] = (await appsOf(it.preview_environment_id)).filter(({ name }: { name: string }) => name === 'web');
    // a later commit of the fork is not deployed by itself
    expect(web).toMatchObject({ repository_url: fork_url, branch: 'patch', autodeploy: false });
    expect((await world.repo.get('deployment', web.deployment_id))?.desired.commit).toBe(one);
    expect((await owner.post(approve, { commit: one })).status).toBe(409);
  });

  it.each([
    ['with the git credential where that is for its host and protocol', repository, { type: 'token' }],
    ['without a git credential that is for another protocol', 'git@git.test:team/shop.git', { type: 'ssh' }],
  ])('is read %s', async (_, repository_url, { type }) => {
    const { project, web } = await shop();
    const id = randomUUID();
    const sealed = (field: string) => ({ $sealed: 'key.nonce.text', for: `git_credential/${id}/credential.${field}` });
    const credential =
      type === 'token'
        ? { type: 'token' as const, username: 'x', token: sealed('token') }
        : {
            type: 'ssh' as const,
            algorithm: 'ed25519',
            public_key: 'ssh-ed25519 AAAA',
            private_key: sealed('private_key'),
            host_keys: ['ssh-ed25519 AAAA'],
          };
    await world.create('git_credential', id, desiredState('git_credential', { host: 'git.test', credential }));
    await owner.put(`/applications/${web}`, { repository_url, git_credential_id: id });
    const asked = { project_id: project, name: 'pr-5', branch: 'patch', fork_url, commit: one };
    const made = await owner.post('/previews', asked);
    await owner.post(`/previews/${made.data.id}/approve`, { commit: one });
    const it = await eventually(made.data.id, 'deploying');
    const [copy] = (await appsOf(it.preview_environment_id)).filter(({ name }: { name: string }) => name === 'web');
    expect(copy).toMatchObject({ repository_url: fork_url, git_credential_id: type === 'token' ? id : null });
  });
});

it.each<[body: object, field: string]>([
  [{ from_backup: 'of yesterday' }, 'from_backup'],
  [{ ttl_seconds: 3599 }, 'ttl_seconds'],
  [{ ttl_seconds: 30 * 86_400 + 1 }, 'ttl_seconds'],
  [{ fork_url }, 'commit'],
  [{ commit: one }, 'commit'],
  [{ fork_url, commit: 'main' }, 'commit'],
  [{ repository_url: 'https://git.test/team/other.git' }, 'repository_url'],
  [{ branch: '-x' }, 'branch'],
])('%j is refused', async (body, field) => {
  const { project } = await shop();
  const refused = await owner.post('/previews', { project_id: project, name: 'pr-4', branch: 'feature', ...body });
  expect(refused.status).toBe(400);
  expect(refused.body.error?.details?.[0]).toMatchObject({ field });
});

it('its time is counted anew when it is changed, and nothing else of it can be', async () => {
  const { project } = await shop();
  const made = await owner.post('/previews', {
    project_id: project,
    name: 'pr-4',
    branch: 'feature',
    ttl_seconds: 3600,
  });
  const { id, expires_at } = made.data;
  const before = Date.now();
  const longer = await owner.put(`/previews/${id}`, { ttl_seconds: 7200, labels: { team: 'shop' } });
  expect(longer).toMatchObject({ status: 200, data: { id, labels: { team: 'shop' } } });
  expect(Date.parse(longer.data.expires_at)).toBeGreaterThanOrEqual(before + 7_200_000);
  expect(longer.data.expires_at > expires_at).toBe(true);
  const sent = await owner.put(`/previews/${id}`, { ...longer.data, branch: 'another' });
  expect(sent).toMatchObject({ status: 200, data: { branch: 'feature', expires_at: longer.data.expires_at } });
  for (const ttl_seconds of [3599, 30 * 86_400 + 1, null, '7200'])
    expect((await owner.put(`/previews/${id}`, { ttl_seconds })).status).toBe(400);
});

it('a name that an environment of the project has is refused', async () => {
  const { project } = await shop();
  const [{ name }] = await environmentsOf(project);
  const refused = await owner.post('/previews', { project_id: project, name, branch: 'feature' });
  expect(refused.status).toBe(409);
  expect(refused.body.error?.details?.[0]).toMatchObject({ field: 'name', reason: 'taken' });
});

it('an application whose compose file is in the repository has its branch and an address of its own', async () => {
  const { project, environment, server } = await world.place(owner);
  const made = await owner.post('/applications', {
    project_id: project,
    environment_id: environment,
    server_id: server,
    name: 'stack',
    source_type: 'compose',
    repository_url: repository,
    branch: 'main',
    compose_path: 'deploy/compose.yaml',
    exposed_port: 8080,
    env: { TOKEN: 'a very secret value' },
  });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const domain = { ingress: { wildcard_domain: 'apps.example.test' } };
  expect((await owner.put(`/servers/${server}`, domain)).status).toBe(200);
  const asked = await owner.post('/previews', { project_id: project, name: 'pr-6', branch: 'feature' });
  expect(asked.status, JSON.stringify(asked.body)).toBe(201);
  const it = await eventually(asked.data.id, 'deploying');
  const [copy] = await appsOf(it.preview_environment_id);
  expect(copy).toMatchObject({ branch: 'feature', compose_path: 'deploy/compose.yaml', repository_url: repository });
  expect(copy.internal_id).not.toBe(made.data.internal_id);
  expect(it.urls).toEqual([`https://${copy.internal_id}.apps.example.test/`]);
  expect((await world.repo.get('application', copy.id))?.desired.unpublished).toBe(true);
  const deployment = await world.repo.get('deployment', copy.deployment_id);
  expect(deployment?.desired).toMatchObject({ source: { type: 'compose', repository: { branch: 'feature' } } });
  // the file is read by the controllers, of the commit that they build
  expect(deployment?.desired.services).toBeUndefined();
});

it('an environment with an inline compose file has no preview, and the refusal names it', async () => {
  const { project, server } = await shop();
  const compose_file = 'services:\n  web:\n    image: web:1\n';
  const at = { project_id: project, server_id: server, name: 'stack' };
  const made = await owner.post('/applications', { ...at, source_type: 'compose', compose_file });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const refused = await owner.post('/previews', { project_id: project, name: 'pr-5', branch: 'feature' });
  expect(refused.status).toBe(409);
  expect(refused.body.error?.message).toContain('stack');
  expect(await environmentsOf(project)).toHaveLength(1);
});
