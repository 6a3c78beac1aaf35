import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { application } from '../../store/kinds/application.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { serviceSpec } from '../harness/wire-items.ts';

let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
function fields(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    name: `app ${(count += 1)}`,
    source_type: 'image',
    image_url: 'example/web:1',
    ...more,
  };
}

async function anApplication(more: Record<string, unknown> = {}): Promise<string> {
  const answer = await owner.post('/applications', fields(more));
  expect(answer.body).toMatchObject({ success: true });
  expect(answer.status).toBe(201);
  return answer.data.id;
}

/** What the controllers would write of a deployment. */
async function deploymentIs(
  id: string,
  phase: ObservedOf<'deployment'>['phase'],
  image = 'example/web@1',
): Promise<void> {
  const built = phase === 'succeeded' || phase === 'deploying' ? { image, image_digest: `sha256:${image}` } : {};
  await world.observe('deployment', id, { phase, ...built });
}

async function applicationIs(id: string, observed: Partial<ObservedOf<'application'>>): Promise<void> {
  const all = {
    phase: 'running' as const,
    consecutive_failures: 0,
    ready_replicas: 1,
    crash_loop_counted: false,
    ...observed,
  };
  await world.observe('application', id, all);
}

/** Deploys, and lets it succeed. */
async function deployed(id: string, image?: string): Promise<string> {
  const deployment = (await owner.post(`/applications/${id}/deploy`)).data.id;
  await deploymentIs(deployment, 'succeeded', image);
  await applicationIs(id, { current_deployment_id: deployment });
  return deployment;
}

const get = async (id: string) => (await owner.get(`/applications/${id}`)).data;
const desired = async (id: string) => (await world.repo.get('application', id))!.desired;
const deploymentOf = async (id: string) => (await world.repo.get('deployment', id))!.desired;

describe('an application', () => {
  it('gets the value of a new one for each field that is sent as null', async () => {
    const more = { app_type: 'static', autodeploy: true, restart_policy: 'never', replicas: 3, max_surge: 2 };
    const id = await anApplication({ source_type: 'image', ...more });
    expect(await get(id)).toMatchObject(more);
    const none = Object.fromEntries(Object.keys(more).map((field) => [field, null]));
    expect((await owner.put(`/applications/${id}`, none)).data).toMatchObject({
      app_type: 'web',
      autodeploy: false,
      restart_policy: 'always',
      replicas: 1,
      max_surge: 1,
    });
  });

  it('is stopped after its creation, shows every field, and no value of its environment', async () => {
    const id = await anApplication({
      name: 'Mein Büro-Blog!',
      env: { SECRET: 'hunter2hunter2' },
      exposed_port: 8080,
      labels: { a: 'b' },
    });
    const answer = await owner.get(`/applications/${id}`);
    expect(answer.data).toMatchObject({
      id,
      name: 'Mein Büro-Blog!',
      status: 'stopped',
      replicas: 1,
      source_type: 'image',
      image_url: 'example/web:1',
      repository_url: null,
      app_type: 'web',
      exposed_port: 8080,
      restart_policy: 'always',
      autodeploy: false,
      current_deployment_id: null,
      current_commit: null,
      is_source_deployed: false,
      consecutive_failures: 0,
      labels: { a: 'b' },
      conditions: [],
      observed_generation: 0,
      generation: 1,
    });
    expect(answer.data.internal_id).toMatch(/^mein-bu-ro-blog-[0-9a-f]{6}$/);
    expect(answer.data).not.toHaveProperty('env');
    expect(answer.headers.get('etag')).toBe(`"${answer.data.resource_version}"`);
    const { entries } = await world.store.list(keys.all);
    expect(entries.map(({ value }) => value).join('\n')).not.toContain('hunter2hunter2');
  });

  it.each([
    [{ image_url: null }, 'image_url'],
    [{ image_url: '-x' }, 'image_url'],
    [{ image_url: 'a b' }, 'image_url'],
    [{ image_url: 'a'.repeat(64) }, 'image_url'],
    [{ image_url: 'sha256:16cb3f' }, 'image_url'],
    [{ image_url: `sha256@sha256:${'a'.repeat(64)}` }, 'image_url'],
    [{ image_url: 'setpoint/victim-f2a920:1' }, 'image_url'],
    [{ image_url: 'docker.io/setpoint/victim-f2a920:1' }, 'image_url'],
    [{ image_url: '127.0.0.1:5000/x' }, 'image_url'],
    [{ image_url: 'localhost/x' }, 'image_url'],
    [{ image_url: '169.254.169.254/latest' }, 'image_url'],
    [{ image_url: 'registry.evil.test/x' }, 'image_url'],
    [{ source_type: 'git' }, 'image_url'],
    [{ source_type: 'git', image_url: null }, 'repository_url'],
    [{ source_type: 'git', image_url: null, repository_url: 'https://x/y', branch: 'main' }, 'dockerfile_path'],
    [{ source_type: 'git', repository_url: 'ext::sh -c id' }, 'repository_url'],
    [{ source_type: 'git', repository_url: 'git://x/y' }, 'repository_url'],
    [{ source_type: 'git', repository_url: 'https://user:pw@x/y' }, 'repository_url'],
    [{ source_type: 'git', branch: '-x' }, 'branch'],
    [{ source_type: 'git', branch: 'a..b' }, 'branch'],
    [{ dockerfile_path: '../Dockerfile' }, 'dockerfile_path'],
    [{ dockerfile_path: '/etc/passwd' }, 'dockerfile_path'],
    [{ source_type: 'compose', image_url: null }, 'compose_file'],
    [{ source_type: 'compose', image_url: null, compose_file: 'x' }, 'compose_file'],
    [{ compose_file: 'services: {}' }, 'compose_file'],
    [{ source_type: 'zip' }, 'source_type'],
    [{ watch_paths: 'src/\u0007' }, 'watch_paths'],
    [{ watch_paths: '../src/**' }, 'watch_paths'],
    [{ watch_paths: '**/a/**/b/**' }, 'watch_paths'],
    [{ watch_paths: 'x'.repeat(257) }, 'watch_paths'],
    [{ watch_paths: 'a,'.repeat(33) }, 'watch_paths'],
    [{ autodeploy_interval: 59 }, 'autodeploy_interval'],
    [{ autodeploy_interval: -1 }, 'autodeploy_interval'],
    [{ autodeploy_interval: 86_401 }, 'autodeploy_interval'],
    [{ replicas: 101 }, 'replicas'],
    [{ replicas: 1.5 }, 'replicas'],
    [{ exposed_port: 65_536 }, 'exposed_port'],
    [{ exposed_port: '80' }, 'exposed_port'],
    [{ memory_limit: '5m' }, 'memory_limit'],
    [{ memory_limit: '1t' }, 'memory_limit'],
    [{ start_command: 'sh -c "echo hi' }, 'start_command'],
    [{ start_command: "sh -c 'echo hi" }, 'start_command'],
    [{ start_command: 'serve \\' }, 'start_command'],
    [{ start_command: '"" serve' }, 'start_command'],
    [{ cpu_limit: '0.001' }, 'cpu_limit'],
    [{ cpu_limit: 0.000_000_1 }, 'cpu_limit'],
    [{ cpu_limit: '257' }, 'cpu_limit'],
    [{ build_secrets: { 'a/b': 'x' } }, 'build_secrets["a/b"]'],
    [{ build_secrets: { a: '' } }, 'build_secrets.a'],
    [{ env: { 'A B': 'x' } }, 'env["A B"]'],
    [{ build_args: { 'A=B': 'x' } }, 'build_args["A=B"]'],
    [{ env: { A: 'x'.repeat(32 * 1024 + 1) } }, 'env.A'],
    [{ env: { A: 'a\0b' } }, 'env.A'],
    [{ env: { A: 1 } }, 'env.A'],
    [{ healthcheck_path: 'healthz' }, 'healthcheck_path'],
    [{ restart_policy: 'sometimes' }, 'restart_policy'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ status: 'running' }, 'status'],
    [{ internal_id: 'x' }, 'internal_id'],
  ])('is not created from %j', async (more, field) => {
    const answer = await owner.post('/applications', fields(more));
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details?.map((it) => it.field)).toContain(field);
  });

  it('takes images of a registry that a superadmin named, and keeps what it has when that is taken back', async () => {
    const wanted = fields({ name: 'from-ours', image_url: 'Registry.Test:5000/team/app:1' });
    expect((await owner.post('/applications', wanted)).status).toBe(400);
    expect((await owner.put('/settings', { registries: ['registry.test:5000'] })).status).toBe(200);
    const { status, data } = await owner.post('/applications', wanted);
    expect(status).toBe(201);
    expect((await owner.put('/settings', { registries: null })).status).toBe(200);
    const again = { image_url: data.image_url, start_command: 'serve' };
    expect((await owner.put(`/applications/${data.id}`, again)).status).toBe(200);
    const other = await owner.put(`/applications/${data.id}`, { image_url: 'registry.test:5000/team/app:2' });
    expect(other.body.error?.details).toMatchObject([{ field: 'image_url', reason: 'not_allowed' }]);
  });

  it('keeps the secrets of its builds sealed, shows their ids alone, and takes them away by null', async () => {
    const git = {
      source_type: 'git',
      image_url: undefined,
      repository_url: 'https://git.example/shop.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
    };
    const build_secrets = { 'npm.token': 'KEEP-THIS-ONE', other: 'line one\nline two' };
    const id = await anApplication({ ...git, build_secrets });
    const at = `/applications/${id}`;
    const stored = async () => {
      const entry = await world.store.get(keys.desired('default', 'application', id));
      return application.desired.parse(JSON.parse(entry?.value ?? '').desired).source;
    };
    const sealedIn = async () => {
      const source = await stored();
      return source.type === 'git' ? source.build_secrets : undefined;
    };
    const before = await sealedIn();
    expect(JSON.stringify(before)).not.toContain('KEEP-THIS-ONE');
    const shown = await owner.get(at);
    expect(shown.data.build_secret_ids).toEqual(['npm.token', 'other']);
    expect(JSON.stringify(shown.body)).not.toContain('KEEP-THIS-ONE');
    await owner.put(at, { branch: 'next' });
    expect(await sealedIn()).toEqual(before);
    await owner.put(at, { build_secrets: { 'npm.token': 'KEEP-THIS-ONE' } });
    expect(await sealedIn()).toEqual({ 'npm.token': before?.['npm.token'] });
    expect((await owner.put(at, { build_secrets: null })).data.build_secret_ids).toEqual([]);
    const refused = await owner.post('/applications', fields({ build_secrets }));
    expect(refused.body.error?.details?.[0]).toMatchObject({ field: 'build_secrets', reason: 'unsupported' });
  });

  it('takes no notice of what clients send of a repository with each source, unless that is to be changed', async () => {
    const formal = { branch: 'main', dockerfile_path: 'Dockerfile', build_context: '.' };
    const none = { branch: null, dockerfile_path: null, build_context: null };
    const image = await owner.post('/applications', fields(formal));
    expect([image.status, image.data]).toMatchObject([201, none]);
    const compose_file = 'services: {web: {image: web:1}}';
    const composed = fields({ source_type: 'compose', image_url: null, compose_file, ...formal });
    expect((await owner.post('/applications', composed)).data).toMatchObject(none);
    const changed = await owner.put(`/applications/${image.data.id}`, { branch: 'next' });
    expect([changed.status, changed.body.error?.details?.[0]?.field]).toEqual([400, 'branch']);
  });

  it('leaves the submodules of its repository out unless they are asked for', async () => {
    const git = {
      source_type: 'git',
      image_url: null,
      repository_url: 'https://example.com/x.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
    };
    const { data } = await owner.post('/applications', fields(git));
    expect(data.submodules).toBe(false);
    const at = `/applications/${data.id}`;
    expect((await owner.put(at, { submodules: true })).data.submodules).toBe(true);
    expect((await owner.put(at, { branch: 'next' })).data.submodules).toBe(true);
    expect((await owner.put(at, { submodules: null })).data.submodules).toBe(false);
    const refused = await owner.post('/applications', fields({ submodules: true }));
    expect(refused.body.error?.details?.[0]).toMatchObject({ field: 'submodules', reason: 'unsupported' });
    expect((await owner.post('/applications', fields())).data.submodules).toBeNull();
  });

  it('refers to a project, environment and server that exist and belong together', async () => {
    const other = await world.place(owner);
    for (const [field, value, status] of [
      ['project_id', crypto.randomUUID(), 404],
      ['environment_id', crypto.randomUUID(), 404],
      ['environment_id', other.environment, 404],
      ['server_id', crypto.randomUUID(), 404],
      ['server_id', 'x', 400],
    ] as const) {
      const answer = await owner.post('/applications', fields({ [field]: value }));
      expect(answer.status, field).toBe(status);
      expect(answer.body.error?.details?.[0]?.field).toBe(field);
    }
    const defaults = await owner.post('/applications', fields({ environment_id: undefined }));
    expect(defaults.data.environment_id).toBe(place.environment);
    expect((await owner.post('/applications', fields({ server_id: undefined }))).status).toBe(400);
  });

  it('has a name of its own in its environment, which can be asked for before', async () => {
    await anApplication({ name: 'Taken' });
    expect((await owner.post('/applications', fields({ name: 'taken' }))).status).toBe(409);
    const ask = async (name: string) =>
      (await owner.get(`/applications/check-name?projectId=${place.project}&name=${name}`)).data;
    expect(await ask('TAKEN')).toEqual({ available: false, name: 'TAKEN', suggestion: 'TAKEN-2' });
    expect(await ask('free')).toEqual({ available: true, name: 'free', suggestion: null });
    const long = `${'x'.repeat(89)}${'🦆'.repeat(5)}`;
    await anApplication({ name: long });
    expect((await ask(encodeURIComponent(long))).suggestion).toBe(`${'x'.repeat(89)}-2`);
    expect((await owner.get('/applications/check-name?name=x')).status).toBe(400);
    const staging = (await owner.post(`/projects/${place.project}/environments`, { name: 'staging' })).data;
    expect((await owner.post('/applications', fields({ name: 'taken', environment_id: staging.id }))).status).toBe(201);
  });

  it('keeps its internal id when it is renamed, and takes an answer back as it came', async () => {
    const id = await anApplication({ description: undefined, watch_paths: 'src/**' });
    const before = await get(id);
    const renamed = (await owner.put(`/applications/${id}`, { name: `renamed ${id}`, watch_paths: null })).data;
    expect(renamed).toMatchObject({ internal_id: before.internal_id, name: `renamed ${id}`, watch_paths: null });
    const watched = (await owner.put(`/applications/${id}`, { watch_paths: 'src/**\n!src/**/*.md' })).data;
    expect(watched.watch_paths).toBe('src/**\n!src/**/*.md');
    for (const [sent, shown] of [
      [60, 60],
      [0, 0],
      [86_400, 86_400],
      [null, 300],
    ] as const)
      expect((await owner.put(`/applications/${id}`, { autodeploy_interval: sent })).data.autodeploy_interval).toBe(
        shown,
      );
    const refused = await owner.put(`/applications/${id}`, { watch_paths: 'src//**' });
    expect(refused.body.error?.details?.[0]).toMatchObject({ field: 'watch_paths' });
    const back = await owner.put(`/applications/${id}`, { ...watched, replicas: 3 });
    expect(back.data).toMatchObject({ replicas: 3, name: renamed.name });
    const moved = await owner.put(`/applications/${id}`, {
      server_id: crypto.randomUUID(),
      project_id: crypto.randomUUID(),
    });
    expect(moved.data).toMatchObject({ server_id: place.server, project_id: place.project });
  });

  it('is listed by project, environment, server and status', async () => {
    const other = await world.place(owner);
    const app = await owner.post(
      '/applications',
      fields({ project_id: other.project, environment_id: other.environment, server_id: other.server }),
    );
    const ids = async (query: string) =>
      (await owner.get(`/applications?${query}`)).data.map((it: { id: string }) => it.id);
    for (const query of [
      `projectId=${other.project}`,
      `environmentId=${other.environment}`,
      `serverId=${other.server}`,
    ])
      expect(await ids(query)).toEqual([app.data.id]);
    expect(await ids(`projectId=${other.project}&status=stopped`)).toEqual([app.data.id]);
    expect(await ids(`projectId=${other.project}&status=running`)).toEqual([]);
    expect((await owner.get('/applications?projectId=x')).status).toBe(400);
  });

  it('is deleting after its deletion and refuses verbs', async () => {
    const id = await anApplication();
    const answer = await owner.delete(`/applications/${id}`);
    expect(answer.status).toBe(200);
    expect(answer.data.status).toBe('deleting');
    for (const verb of ['deploy', 'start', 'stop', 'restart', 'rollback'])
      expect((await owner.post(`/applications/${id}/${verb}`)).status, verb).toBe(409);
    expect((await owner.put(`/applications/${id}`, {})).status).toBe(409);
    expect((await get(id)).status).toBe('deleting');
  });
});

describe('deploy', () => {
  it('makes a deployment of what the application says and turns it deploying at once', async () => {
    const id = await anApplication({ env: { A: '1' } });
    const answer = await owner.post(`/applications/${id}/deploy`);
    expect(answer.status).toBe(200);
    expect(answer.data).toMatchObject({
      application_id: id,
      number: 1,
      status: 'queued',
      trigger: 'manual',
      is_current: false,
      image: 'example/web:1',
      triggered_by: expect.any(String),
      finished_at: null,
      error: null,
    });
    expect(await get(id)).toMatchObject({
      status: 'deploying',
      deployment_id: answer.data.id,
      current_deployment_id: null,
      is_source_deployed: true,
    });
    expect((await deploymentOf(answer.data.id)).config.env).toEqual((await desired(id)).config.env);
    expect((await owner.get(`/deployments/${answer.data.id}`)).data).toMatchObject({ status: 'queued', number: 1 });
  });

  it('answers a second click with the deployment that waits, and makes a new one once that has begun', async () => {
    const id = await anApplication();
    const first = (await owner.post(`/applications/${id}/deploy`)).data.id;
    expect((await owner.post(`/applications/${id}/deploy`)).data.id).toBe(first);
    const changed = await owner.put(`/applications/${id}`, { image_url: 'example/web:2' });
    expect(changed.data.is_source_deployed).toBe(false);
    const second = (await owner.post(`/applications/${id}/deploy`)).data;
    expect(second).toMatchObject({ number: 2, image: 'example/web:2' });
    // what was pushed since is not in it
    await deploymentIs(second.id, 'building');
    expect((await owner.post(`/applications/${id}/deploy`)).data.number).toBe(3);
    const listed = (await owner.get(`/applications/${id}/deployments`)).data;
    expect(listed.map((it: { number: number }) => it.number)).toEqual([3, 2, 1]);
  });

  it('of a stopped application that has failed leaves what served to the next start', async () => {
    const id = await anApplication();
    const first = (await owner.post(`/applications/${id}/deploy`)).data.id;
    await deploymentIs(first, 'succeeded');
    await owner.post(`/applications/${id}/stop`);
    const second = (await owner.post(`/applications/${id}/deploy`)).data;
    expect((await desired(id)).starts_from).toBe(second.number);
    // while it comes, a start changes nothing of that
    await owner.post(`/applications/${id}/start`);
    expect((await desired(id)).starts_from).toBe(second.number);
    await deploymentIs(second.id, 'failed');
    // also before any controller has stopped the application again
    expect((await owner.post(`/applications/${id}/start`)).status).toBe(200);
    expect(await desired(id)).toMatchObject({ run: 'running' });
    expect((await desired(id)).starts_from).toBeUndefined();
  });

  it('makes one deployment of many clicks at once', async () => {
    const id = await anApplication();
    const answers = await Promise.all(Array.from({ length: 6 }, () => owner.post(`/applications/${id}/deploy`)));
    expect(new Set(answers.map(({ data }) => data.id)).size).toBe(1);
  });

  it('during a rollback is another deployment, though both are of the same', async () => {
    const id = await anApplication();
    await deployed(id, 'one');
    await deployed(id, 'two');
    const rollback = (await owner.post(`/applications/${id}/rollback`)).data;
    expect(rollback).toMatchObject({ trigger: 'rollback', status: 'queued' });
    const deployment = (await owner.post(`/applications/${id}/deploy`)).data;
    expect(deployment).toMatchObject({ trigger: 'manual', rollback_of: null });
    expect(deployment.id).not.toBe(rollback.id);
    expect((await owner.post(`/applications/${id}/deploy`)).data.id).toBe(deployment.id);
  });

  it('gets the same deployment for the same key, and another one for another key', async () => {
    const id = await anApplication();
    const by = async (key: string) =>
      (await owner.post(`/applications/${id}/deploy`, {}, { 'idempotency-key': key })).data;
    const first = await by('one');
    await deploymentIs(first.id, 'succeeded');
    expect(await by('one')).toEqual(first);
    expect((await by('two')).id).not.toBe(first.id);
  });

  it('waits for its end where that is asked for', async () => {
    const id = await anApplication();
    const waiting = owner.post(`/applications/${id}/deploy?wait=20`);
    await expect.poll(async () => (await get(id)).deployment_id).not.toBeNull();
    const { deployment_id } = await get(id);
    await deploymentIs(deployment_id, 'succeeded');
    await applicationIs(id, { current_deployment_id: deployment_id });
    expect((await waiting).data).toMatchObject({ id: deployment_id, status: 'succeeded', is_current: true });
    const before = deployment_id;
    let isAnswered = false;
    const changing = owner.put(`/applications/${id}/env?wait=20`, { A: '1' }).finally(() => (isAnswered = true));
    await expect.poll(async () => (await get(id)).deployment_id).not.toBe(before);
    const next = (await get(id)).deployment_id;
    expect(isAnswered).toBe(false);
    await deploymentIs(next, 'succeeded');
    await applicationIs(id, { current_deployment_id: next });
    expect((await changing).data).toMatchObject({ env: { A: '1' }, deployment_id: next });
    expect((await owner.post(`/applications/${id}/deploy?wait=301`)).status).toBe(400);
    expect((await owner.post(`/applications/${id}/deploy?wait=0`)).data.status).toBe('queued');
  });

  it('is refused when the server is being deleted', async () => {
    const other = await world.place(owner);
    const id = await anApplication({
      project_id: other.project,
      environment_id: other.environment,
      server_id: other.server,
    });
    await owner.delete(`/servers/${other.server}?force=true`);
    expect((await owner.post(`/applications/${id}/deploy`)).status).toBe(409);
  });
});

describe('start and stop', () => {
  it('start deploys what was never deployed', async () => {
    const id = await anApplication();
    const answer = await owner.post(`/applications/${id}/start`);
    expect(answer.data).toMatchObject({ id, status: 'deploying' });
    expect(answer.data.deployment_id).not.toBeNull();
    expect((await owner.post(`/applications/${id}/start`)).data.deployment_id).toBe(answer.data.deployment_id);
  });

  it('start brings back what served last, without a deployment', async () => {
    const id = await anApplication();
    const deployment = await deployed(id);
    await owner.post(`/applications/${id}/stop`);
    await applicationIs(id, { phase: 'stopped', ready_replicas: 0, current_deployment_id: deployment });
    expect((await get(id)).status).toBe('stopped');
    const answer = (await owner.post(`/applications/${id}/start`)).data;
    expect(answer).toMatchObject({ status: 'deploying', deployment_id: deployment });
  });

  it('start brings a changed configuration with the image that was built', async () => {
    const id = await anApplication();
    const first = await deployed(id, 'img1');
    await owner.post(`/applications/${id}/stop`);
    await applicationIs(id, { phase: 'stopped', ready_replicas: 0, current_deployment_id: first });
    const put = (await owner.put(`/applications/${id}`, { start_command: 'serve', image_url: 'example/web:9' })).data;
    expect(put).toMatchObject({ status: 'stopped', deployment_id: first });
    const { deployment_id } = (await owner.post(`/applications/${id}/start`)).data;
    expect(await deploymentOf(deployment_id)).toMatchObject({
      trigger: 'config',
      source: { image_url: 'example/web:1' },
      config: { start_command: 'serve' },
      reuse: { image: 'img1', image_digest: 'sha256:img1' },
    });
  });

  it('stop cancels what is under way, and twice is the same as once', async () => {
    const id = await anApplication();
    const deployment = (await owner.post(`/applications/${id}/deploy`)).data.id;
    expect((await owner.post(`/applications/${id}/stop`)).status).toBe(200);
    expect(await deploymentOf(deployment)).toMatchObject({ cancel_requested: true });
    const before = await world.store.revision();
    expect((await owner.post(`/applications/${id}/stop`)).status).toBe(200);
    expect(await world.store.revision()).toBe(before);
  });

  it('restart makes a new token each time, and is refused when stopped', async () => {
    const id = await anApplication();
    expect((await owner.post(`/applications/${id}/restart`)).status).toBe(409);
    await deployed(id);
    await owner.post(`/applications/${id}/restart`);
    const one = (await desired(id)).restart_token;
    await owner.post(`/applications/${id}/restart`);
    expect(one).toBeDefined();
    expect((await desired(id)).restart_token).not.toBe(one);
  });
});

describe('scale', () => {
  const whole = (id: string) => `/applications/${id}`;

  it.each([
    ['start', (id: string) => owner.post(`${whole(id)}/start`)],
    ['deploy', (id: string) => owner.post(`${whole(id)}/deploy`)],
    ['rollback', (id: string) => owner.post(`${whole(id)}/rollback`)],
  ])('to none is undone by %s, which brings the last count back', async (_, bring) => {
    const id = await anApplication({ replicas: 3 });
    await deployed(id, 'one');
    await deployed(id, 'two');
    expect((await owner.post(`${whole(id)}/scale`, { replicas: 0 })).data.replicas).toBe(0);
    expect((await owner.post(`${whole(id)}/scale`, { replicas: 0 })).data.replicas).toBe(0);
    expect((await bring(id)).status).toBe(200);
    expect(await desired(id)).toMatchObject({ replicas: 3, run: 'running' });
  });

  it('is what a change of replicas does, too', async () => {
    const id = await anApplication({ replicas: 2 });
    const deployment = await deployed(id);
    expect((await owner.put(whole(id), { replicas: 0 })).data.replicas).toBe(0);
    expect(await desired(id)).toMatchObject({ replicas: 0, run: 'stopped' });
    await applicationIs(id, { phase: 'stopped', ready_replicas: 0, current_deployment_id: deployment });
    const up = await owner.put(whole(id), { replicas: 4, env: { A: 'b' } });
    expect(up.data).toMatchObject({ replicas: 4, status: 'deploying' });
    expect(up.data.deployment_id).not.toBe(deployment);
    expect(await desired(id)).toMatchObject({ replicas: 4, run: 'running' });
    const first = await anApplication({ replicas: 0 });
    expect((await owner.put(whole(first), { replicas: 1 })).data).toMatchObject({ replicas: 1, status: 'deploying' });
    const stopped = await anApplication({ replicas: 2 });
    expect((await owner.put(whole(stopped), { replicas: 3 })).data).toMatchObject({ replicas: 3, status: 'stopped' });
  });

  it('sets replicas, stops at none and starts again from none', async () => {
    const id = await anApplication();
    const deployment = await deployed(id);
    const scale = (replicas: unknown) => owner.post(`/applications/${id}/scale`, { replicas });
    expect((await scale(3)).data).toMatchObject({ replicas: 3, status: 'deploying' });
    await applicationIs(id, { ready_replicas: 3, current_deployment_id: deployment });
    expect((await scale(2)).data).toMatchObject({ replicas: 2, status: 'running' });
    await scale(0);
    expect(await desired(id)).toMatchObject({ replicas: 0, run: 'stopped' });
    await applicationIs(id, { phase: 'stopped', ready_replicas: 0, current_deployment_id: deployment });
    expect((await scale(2)).data).toMatchObject({ replicas: 2, status: 'deploying', deployment_id: deployment });
    expect(await desired(id)).toMatchObject({ run: 'running' });
    for (const wrong of [-1, 101, '2', null, undefined]) expect((await scale(wrong)).status).toBe(400);
  });

  it('does not start what is stopped', async () => {
    const id = await anApplication();
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 4 })).data).toMatchObject({
      replicas: 4,
      status: 'stopped',
    });
  });
});

describe('capabilities of the kernel', () => {
  it('are granted and taken away by an admin, whole lists at a time, and shown to all who see the application', async () => {
    const id = await anApplication();
    const path = `/applications/${id}/capabilities`;
    expect((await owner.get(`/applications/${id}`)).data.capabilities).toEqual([]);
    const granted = await owner.put(path, { capabilities: ['NET_RAW', 'IPC_LOCK'] });
    expect(granted.data.capabilities).toEqual(['IPC_LOCK', 'NET_RAW']);
    expect((await owner.put(path, { capabilities: ['NET_RAW'] })).data.capabilities).toEqual(['NET_RAW']);
    const [record] = (await owner.get('/audit?limit=1')).data;
    expect(JSON.stringify(record)).toContain('PUT /applications/:id/capabilities');
    expect(JSON.stringify(record)).toContain(id);
    expect((await owner.put(path, { capabilities: [] })).data.capabilities).toEqual([]);
  });

  it('are of a closed list, each once, and no field of the application that its members write', async () => {
    const id = await anApplication();
    const path = `/applications/${id}/capabilities`;
    for (const capabilities of [['SYS_ADMIN'], ['NET_RAW', 'NET_RAW'], 'NET_RAW', ['net_raw']]) {
      const answer = await owner.put(path, { capabilities });
      expect([answer.status, answer.body.error?.details?.[0]?.field]).toEqual([
        400,
        expect.stringContaining('capabilities'),
      ]);
    }
    // an answer that is sent back changes none of what only the server or an admin writes
    expect((await owner.put(`/applications/${id}`, { capabilities: ['NET_RAW'] })).data.capabilities).toEqual([]);
  });
});

describe('rollback', () => {
  it('is refused without an earlier success', async () => {
    const id = await anApplication();
    expect((await owner.post(`/applications/${id}/rollback`)).status).toBe(409);
    await deployed(id);
    expect((await owner.post(`/applications/${id}/rollback`)).status).toBe(409);
  });

  it('returns to image and configuration of the success before, also in the application', async () => {
    const id = await anApplication({ env: { VERSION: 'one' } });
    const first = await deployed(id, 'img1');
    await owner.put(`/applications/${id}`, {
      image_url: 'example/web:2',
      env: { VERSION: 'two' },
      memory_limit: '64m',
    });
    const second = await deployed(id, 'img2');
    const answer = await owner.post(`/applications/${id}/rollback`);
    expect(answer.data).toMatchObject({ rollback_of: first, trigger: 'rollback', image: 'img1', status: 'queued' });
    expect(await get(id)).toMatchObject({
      image_url: 'example/web:1',
      memory_limit: null,
      status: 'deploying',
      current_deployment_id: second,
    });
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ VERSION: 'one' });
    expect((await owner.post(`/applications/${id}/rollback`)).data.id).toBe(answer.data.id);
  });

  it('returns from a success that the application does not show yet', async () => {
    const id = await anApplication();
    await deployed(id, 'img1');
    const second = await deployed(id, 'img2');
    const third = (await owner.post(`/applications/${id}/deploy`)).data.id;
    await deploymentIs(third, 'succeeded', 'img3');
    expect((await owner.post(`/applications/${id}/rollback`)).data.rollback_of).toBe(second);
  });

  it('passes over deployments that failed', async () => {
    const id = await anApplication();
    const first = await deployed(id, 'img1');
    const failed = (await owner.post(`/applications/${id}/deploy`)).data.id;
    await deploymentIs(failed, 'failed');
    await deployed(id, 'img3');
    expect((await owner.post(`/applications/${id}/rollback`)).data.rollback_of).toBe(first);
  });
});

describe('a change of configuration', () => {
  it('is rolled out at once where something serves, with the image that was built', async () => {
    const id = await anApplication();
    const first = await deployed(id, 'img1');
    const changed = (await owner.put(`/applications/${id}`, { exposed_port: 9000, image_url: 'example/web:2' })).data;
    expect(changed.status).toBe('deploying');
    expect(changed.deployment_id).not.toBe(first);
    expect(await deploymentOf(changed.deployment_id)).toMatchObject({
      trigger: 'config',
      number: 2,
      source: { image_url: 'example/web:1' },
      config: { exposed_port: 9000 },
      reuse: { image: 'img1' },
    });
    expect((await owner.put(`/applications/${id}`, { exposed_port: 9000 })).data.deployment_id).toBe(
      changed.deployment_id,
    );
    expect((await owner.put(`/applications/${id}`, { name: `n ${id}` })).data.deployment_id).toBe(
      changed.deployment_id,
    );
  });

  it('takes over the source of a deployment under way', async () => {
    const id = await anApplication();
    await deployed(id, 'img1');
    await owner.put(`/applications/${id}`, { image_url: 'example/web:2' });
    await owner.post(`/applications/${id}/deploy`);
    const { deployment_id } = (await owner.put(`/applications/${id}`, { start_command: 'x' })).data;
    const deployment = await deploymentOf(deployment_id);
    expect(deployment).toMatchObject({ source: { image_url: 'example/web:2' }, config: { start_command: 'x' } });
    expect(deployment).not.toHaveProperty('reuse');
  });

  it('waits for the next deploy where nothing was deployed', async () => {
    const id = await anApplication();
    expect((await owner.put(`/applications/${id}`, { exposed_port: 9000 })).data).toMatchObject({
      status: 'stopped',
      deployment_id: null,
    });
  });
});

describe('environment variables', () => {
  it('are replaced and merged byte for byte, in either form of the body', async () => {
    const id = await anApplication();
    const path = `/applications/${id}/env`;
    const env = { A: ' spaces "quotes" \\ $HOME \n ünï 🙂 ', EMPTY: '', constructor: 'x' };
    expect((await owner.put(path, { env })).data).toMatchObject({ env, masked: false });
    expect((await owner.get(path)).data.env).toEqual(env);
    expect((await owner.put(path, { B: '2', C: '3' })).data.env).toEqual({ B: '2', C: '3' });
    expect((await owner.patch(path, { C: null, D: '4' })).data.env).toEqual({ B: '2', D: '4' });
    const read = (await owner.get(path)).data;
    expect((await owner.put(path, read)).data).toEqual(read);
    for (const wrong of [{ 'a b': 'x' }, { A: 1 }, { A: null }, { env: { A: null } }, [], 'x'])
      expect((await owner.put(path, wrong)).status).toBe(400);
  });

  it('write nothing when they are the same, and roll out when they are not', async () => {
    const id = await anApplication({ env: { A: '1', B: '2' } });
    const first = await deployed(id, 'img1');
    const before = await world.store.revision();
    expect((await owner.put(`/applications/${id}/env`, { B: '2', A: '1' })).data.deployment_id).toBe(first);
    expect(await world.store.revision()).toBe(before);
    // its answer tells the variables that were not sent, which the audit log must know
    expect((await owner.patch(`/applications/${id}/env`, { A: '1' })).data.deployment_id).toBe(first);
    expect(await world.store.revision()).toBe(before + 1);
    const { deployment_id } = (await owner.patch(`/applications/${id}/env`, { A: '9' })).data;
    expect(await deploymentOf(deployment_id)).toMatchObject({ trigger: 'config', reuse: { image: 'img1' } });
  });

  it('lose none of two merges at once', async () => {
    const id = await anApplication();
    await Promise.all(['A', 'B', 'C', 'D'].map((name) => owner.patch(`/applications/${id}/env`, { [name]: name })));
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ A: 'A', B: 'B', C: 'C', D: 'D' });
  });

  it('may be 500 and no more', async () => {
    const id = await anApplication();
    const many = (from: number, to: number) =>
      Object.fromEntries(Array.from({ length: to - from }, (_, n) => [`V${from + n}`, 'x']));
    expect((await owner.put(`/applications/${id}/env`, many(0, 500))).status).toBe(200);
    expect((await owner.patch(`/applications/${id}/env`, many(500, 501))).status).toBe(400);
    expect((await owner.put(`/applications/${id}/env`, many(0, 501))).status).toBe(400);
  });

  it('takes no as a word for never, and gives a worker no port', async () => {
    const id = await anApplication({ restart_policy: 'no', app_type: 'worker' });
    expect((await owner.get(`/applications/${id}`)).data.restart_policy).toBe('never');
    const refused = await owner.put(`/applications/${id}`, { exposed_port: 8080 });
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([400, 'not_for_workers']);
    const created = await owner.post('/applications', fields({ app_type: 'worker', exposed_port: 8080 }));
    expect(created.status).toBe(400);
    const web = await anApplication({ exposed_port: 8080 });
    expect((await owner.put(`/applications/${web}`, { app_type: 'worker' })).status).toBe(400);
    expect((await owner.put(`/applications/${web}`, { app_type: 'worker', exposed_port: null })).status).toBe(200);
  });

  it('has a DNS name of its own in its environment, which a user may change', async () => {
    const first = (await owner.get(`/applications/${await anApplication({ name: 'Ünï shop' })}`)).data;
    const second = (await owner.get(`/applications/${await anApplication({ name: 'uni-shop' })}`)).data;
    expect([first.host_name, second.host_name]).toEqual(['u-ni-shop', 'uni-shop']);
    const third = (await owner.get(`/applications/${await anApplication({ name: 'uni shop' })}`)).data;
    expect(third.host_name).toBe('uni-shop-2');
    const taken = await owner.put(`/applications/${third.id}`, { host_name: 'uni-shop' });
    expect(taken.status).toBe(409);
    expect(taken.body.error?.details).toMatchObject([{ field: 'host_name', reason: 'taken' }]);
    const asInternal = await owner.put(`/applications/${third.id}`, { host_name: second.internal_id });
    expect(asInternal.status).toBe(409);
    for (const host_name of ['Uni', 'a.b', '-a', 'localhost', '', 'a'.repeat(64)])
      expect((await owner.put(`/applications/${third.id}`, { host_name })).status).toBe(400);
    expect((await owner.put(`/applications/${third.id}`, { host_name: 'store' })).data.host_name).toBe('store');
    expect((await owner.put(`/applications/${second.id}`, { host_name: null })).data.host_name).toBeNull();
    expect((await owner.put(`/applications/${first.id}`, { host_name: 'uni-shop' })).status).toBe(200);
  });

  it('of several applications at once get a DNS name each, also if their names make the same one', async () => {
    const made = await Promise.all(['At once', 'at-once', 'at.once'].map((name) => anApplication({ name })));
    const names = await Promise.all(made.map(async (id) => (await owner.get(`/applications/${id}`)).data.host_name));
    expect(new Set(names)).toEqual(new Set(['at-once', 'at-once-2', 'at-once-3']));
  });

  it('may refer to another application of the environment, and is refused with the name of the variable if there is none', async () => {
    const target = await anApplication({ exposed_port: 8080 });
    const { name } = (await owner.get(`/applications/${target}`)).data;
    const id = await anApplication();
    const path = `/applications/${id}/env`;
    expect((await owner.put(path, { API: `\${applications."${name}".url}` })).status).toBe(200);
    for (const [value, message] of [
      ['${applications.nowhere.url}', 'its environment has no application named nowhere'],
      [`\${applications."${name}".password}`, 'one can refer to host, port, url'],
      ['${databases.main.url}', 'its environment has no database named main'],
      ['${applications.web', 'is no reference'],
    ]) {
      const { status, body } = await owner.patch(path, { BAD: value });
      expect(status).toBe(400);
      expect(body.error?.details).toMatchObject([{ field: 'env.BAD', reason: 'invalid_reference' }]);
      expect(body.error?.message).toContain(message);
    }
    const portless = (await owner.get(`/applications/${id}`)).data.name;
    expect((await owner.patch(path, { BAD: `\${applications."${portless}".url}` })).body.error?.message).toContain(
      'has no exposed_port',
    );
    expect((await owner.get(path)).data.env).toEqual({ API: `\${applications."${name}".url}` });
  });

  it('that refers to an application keeps it from being deleted without force', async () => {
    const target = await anApplication({ exposed_port: 8080 });
    const { name } = (await owner.get(`/applications/${target}`)).data;
    await anApplication({ name: 'who refers', env: { API: `\${applications."${name}".host}` } });
    const refused = await owner.delete(`/applications/${target}`);
    expect(refused.status).toBe(409);
    expect(refused.body.error).toMatchObject({
      message: 'Variables of who refers refer to the application: change them, or send force=true',
      details: [{ field: 'force', reason: 'force_needed' }],
    });
    expect((await owner.delete(`/applications/${target}?force=true`)).status).toBe(200);
  });
});

describe('a deployment', () => {
  it('shows its course, and is current when it serves', async () => {
    const id = await anApplication();
    const deployment = await deployed(id);
    const times = { started_at: '2026-01-01T00:00:00.000Z', finished_at: '2026-01-01T00:00:02.500Z' };
    await world.observe('deployment', deployment, {
      phase: 'succeeded',
      image: 'i',
      image_digest: 'd',
      commit: 'c',
      ...times,
    });
    expect((await owner.get(`/deployments/${deployment}`)).data).toMatchObject({
      status: 'succeeded',
      is_current: true,
      duration_ms: 2500,
      image: 'i',
      commit: 'c',
    });
  });

  it('is cancelled while it is under way and not after its end', async () => {
    const id = await anApplication();
    const deployment = (await owner.post(`/applications/${id}/deploy`)).data.id;
    expect((await owner.post(`/deployments/${deployment}/cancel`)).status).toBe(200);
    expect(await deploymentOf(deployment)).toMatchObject({ cancel_requested: true });
    await deploymentIs(deployment, 'cancelled');
    expect((await owner.post(`/deployments/${deployment}/cancel`)).data.status).toBe('cancelled');
    const other = await deployed(await anApplication());
    expect((await owner.post(`/deployments/${other}/cancel`)).status).toBe(409);
  });
});

describe('instances', () => {
  it('are the ones that run or shall run, and unknown while the server is offline', async () => {
    const id = await anApplication();
    const deployment = await deployed(id);
    const common = {
      server_id: place.server,
      project_id: place.project,
      environment_id: place.environment,
      workload_kind: 'application' as const,
      workload_id: id,
      workload_name: 'web',
      version: deployment,
      service: 'main',
      spec_hash: 'h',
    };
    const [one, two] = [crypto.randomUUID(), crypto.randomUUID()];
    await world.create('assignment', one, { ...common, run: 'running', spec: serviceSpec({ slot: 0 }) });
    await world.create('assignment', two, { ...common, run: 'stopped', spec: serviceSpec({ slot: 1 }) });
    const seen = {
      phase: 'running' as const,
      ready: true,
      stable: true,
      restarts: 2,
      crash_loop: false,
      container_id: 'c',
    };
    await world.observe('assignment', one, seen);
    await world.observe('assignment', two, { ...seen, phase: 'stopped', ready: false });
    expect((await owner.get(`/applications/${id}/instances`)).data).toEqual([
      {
        id: one,
        service: null,
        replica: 0,
        deployment_id: deployment,
        server_id: place.server,
        status: 'running',
        ready: true,
        restarts: 2,
        started_at: null,
        container_id: 'c',
        image_digest: null,
        exit_code: null,
        last_exit: null,
        memory_kills: null,
      },
    ]);
    const last = { exit_code: 137, last_exit: { code: 137, out_of_memory: true, lines: 'bye' }, memory_kills: 2 };
    await world.observe('assignment', one, { ...seen, ...last });
    expect((await owner.get(`/applications/${id}/instances`)).data[0]).toMatchObject({ ...last, status: 'running' });
    await world.observe('assignment', one, { ...seen, last_exit: {} });
    expect((await owner.get(`/applications/${id}/instances`)).data[0].last_exit).toEqual({
      code: null,
      out_of_memory: false,
      lines: null,
    });
    await world.observe('assignment', one, { ...seen, phase: 'starting', ready: false, exit_code: 137 });
    expect((await owner.get(`/applications/${id}/instances`)).data[0].exit_code).toBe(137);
    await world.observe('server', place.server, { phase: 'offline' });
    expect((await owner.get(`/applications/${id}/instances`)).data[0]).toMatchObject({
      status: 'unknown',
      ready: false,
    });
    await world.observe('server', place.server, { phase: 'active' });
    expect((await owner.get(`/applications/${id}/dependencies`)).data).toMatchObject({
      databases: [],
      template_instance: null,
    });
  });
});

describe('how instances are found ready and take the place of others', () => {
  it('has the defaults of Nomad, is changed without a deployment, and returns to them by null', async () => {
    const id = await anApplication();
    const defaults = {
      max_surge: 1,
      min_healthy_seconds: 10,
      healthy_deadline: 300,
      drain_seconds: 30,
      stop_grace_seconds: 10,
    };
    expect((await owner.get(`/applications/${id}`)).data).toMatchObject({ ...defaults, healthcheck: null });
    const set = {
      max_surge: 3,
      min_healthy_seconds: 0,
      healthy_deadline: 60,
      drain_seconds: 0,
      stop_grace_seconds: 25,
    };
    expect((await owner.put(`/applications/${id}`, set)).data).toMatchObject({ ...set, deployment_id: null });
    const none = Object.fromEntries(Object.keys(set).map((name) => [name, null]));
    expect((await owner.put(`/applications/${id}`, none)).data).toMatchObject(defaults);
  });

  it.each<[string, Record<string, unknown>, string, string]>([
    ['no surge', { max_surge: 0 }, 'max_surge', 'from 1 to 20'],
    ['too much surge', { max_surge: 21 }, 'max_surge', 'from 1 to 20'],
    ['a drain of more than an hour', { drain_seconds: 3601 }, 'drain_seconds', 'from 0 to 3600'],
    ['no time to end', { stop_grace_seconds: 0 }, 'stop_grace_seconds', 'from 1 to 3600'],
    ['a deadline that no instance can meet', { healthy_deadline: 10 }, 'healthy_deadline', 'min_healthy_seconds (10)'],
    ['a time that no instance can have', { min_healthy_seconds: 300 }, 'min_healthy_seconds', 'healthy_deadline (300)'],
    [
      'two health checks',
      { healthcheck_path: '/up', exposed_port: 80, healthcheck: { type: 'tcp' } },
      'healthcheck',
      'both healthcheck and healthcheck_path',
    ],
    ['a check of no port', { healthcheck: { type: 'http', path: '/up' } }, 'healthcheck.port', 'exposed_port'],
    ['a setting of another type', { healthcheck: { type: 'tcp', path: '/up' } }, 'healthcheck.path', 'path'],
    ['a check of no known type', { healthcheck: { type: 'ping' } }, 'healthcheck.type', ''],
    [
      'a host that is none',
      { exposed_port: 80, healthcheck: { type: 'http', path: '/', host: 'a b' } },
      'healthcheck.host',
      'host name',
    ],
    [
      'a setting by two names',
      { exposed_port: 80, healthcheck: { type: 'tcp', retries: 2, failures: 3 } },
      'healthcheck.retries',
      '',
    ],
    ['a command without words', { healthcheck: { type: 'command', command: [] } }, 'healthcheck.command', ''],
  ])('refuses %s', async (_, more, field, words) => {
    const answer = await owner.post('/applications', fields(more));
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details?.[0]).toMatchObject({ field });
    expect(JSON.stringify(answer.body.error)).toContain(words);
  });

  it('keeps a health check as it was sent, and takes it away by null', async () => {
    const healthcheck = { type: 'http', path: '/up', port: 9000, interval_seconds: 3, successes: 2 };
    const id = await anApplication({ healthcheck });
    expect((await owner.get(`/applications/${id}`)).data.healthcheck).toEqual(healthcheck);
    const refused = await owner.put(`/applications/${id}`, { healthcheck_path: '/' });
    expect(refused.status).toBe(400);
    const changed = await owner.put(`/applications/${id}`, { healthcheck: null, healthcheck_path: '/' });
    expect(changed.data).toMatchObject({ healthcheck: null, healthcheck_path: '/' });
  });
});

it('has limits of shared memory and of processes, which a compose file has for itself', async () => {
  const ulimits = { nofile: { soft: 1024, hard: 4096 }, memlock: { soft: -1, hard: -1 } };
  const limits = { shm_size: '128m', pids_limit: 200, ulimits };
  const id = await anApplication(limits);
  expect((await owner.get(`/applications/${id}`)).data).toMatchObject(limits);
  const none = { shm_size: null, pids_limit: null, ulimits: null };
  expect((await owner.put(`/applications/${id}`, none)).data).toMatchObject(none);
  const bad = await owner.put(`/applications/${id}`, {
    shm_size: '1x',
    pids_limit: 0,
    ulimits: { nofile: { soft: 2, hard: 1 } },
  });
  expect(new Set(bad.body.error?.details?.map(({ field }) => field))).toEqual(
    new Set(['shm_size', 'pids_limit', 'ulimits.nofile.soft']),
  );
});

it('takes the settings of a health check by the names that compose files have for them', async () => {
  const times = { interval: 3, timeout: 2, start_period: 40, retries: 5 };
  const id = await anApplication({
    exposed_port: 80,
    healthcheck: { type: 'http', path: '/', host: 'app.example.test', status: 401, ...times },
  });
  expect((await owner.get(`/applications/${id}`)).data.healthcheck).toEqual({
    type: 'http',
    path: '/',
    host: 'app.example.test',
    status: 401,
    interval_seconds: 3,
    timeout_seconds: 2,
    start_seconds: 40,
    failures: 5,
  });
});

describe('a return to a deployment that is named', () => {
  it('goes to any that succeeded, and says which did where one did not', async () => {
    const id = await anApplication({ env: { VERSION: 'one' } });
    const ids: string[] = [];
    for (const version of ['one', 'two', 'three']) {
      await owner.put(`/applications/${id}/env`, { VERSION: version });
      ids.push(await deployed(id, `img-${version}`));
    }
    const answer = await owner.post(`/applications/${id}/rollback`, { deployment_id: ids[0] });
    expect(answer.data).toMatchObject({ rollback_of: ids[0], image: 'img-one', trigger: 'rollback' });
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ VERSION: 'one' });
    const unfinished = await owner.post(`/applications/${id}/rollback`, { deployment_id: answer.data.id });
    expect(unfinished.status).toBe(409);
    expect(unfinished.body.error?.message).toContain('it has not succeeded: those that did are ');
  });

  it('is refused for one of another application, and for what is no id', async () => {
    const [id, other] = [await anApplication(), await anApplication()];
    await deployed(id, 'img1');
    const foreign = await deployed(other, 'img2');
    const answer = await owner.post(`/applications/${id}/rollback`, { deployment_id: foreign });
    expect(answer.status).toBe(404);
    expect((await owner.post(`/applications/${id}/rollback`, { deployment_id: 'x' })).status).toBe(400);
    expect((await owner.post(`/applications/${id}/rollback`, { other: 1 })).status).toBe(400);
  });
});

describe('the changes of a deployment', () => {
  it('are those of source and configuration to the one before, without a value of a secret', async () => {
    const id = await anApplication({ env: { SAME: 'kept words', OLD: 'old words', GONE: 'lost words' } });
    const first = await deployed(id, 'img1');
    await owner.put(`/applications/${id}`, {
      image_url: 'example/web:2',
      memory_limit: '64m',
      exposed_port: 8080,
      healthcheck: { type: 'http', path: '/up', interval_seconds: 2 },
      env: { SAME: 'kept words', OLD: 'new words', NEW: 'more words' },
    });
    const configured = (await get(id)).deployment_id;
    expect((await owner.get(`/deployments/${first}`)).data.changes).toBeNull();
    const { data } = await owner.get(`/deployments/${configured}`);
    const { data: last } = await owner.get(`/deployments/${await deployed(id, 'img2')}`);
    expect(last.changes).toEqual([
      { field: 'image_url', change: 'changed', before: 'example/web:1', after: 'example/web:2' },
    ]);
    const secret = { before: null, after: null };
    const added = { change: 'added', before: null };
    expect(data.changes).toEqual([
      { field: 'env.GONE', change: 'removed', ...secret },
      { field: 'env.NEW', change: 'added', ...secret },
      { field: 'env.OLD', change: 'changed', ...secret },
      { field: 'exposed_port', ...added, after: 8080 },
      { field: 'healthcheck.interval_seconds', ...added, after: 2 },
      { field: 'healthcheck.path', ...added, after: '/up' },
      { field: 'healthcheck.type', ...added, after: 'http' },
      { field: 'memory_limit', ...added, after: '64m' },
    ]);
    expect(JSON.stringify(data)).not.toContain('words');
    const back = await owner.post(`/applications/${id}/rollback`);
    const { data: returned } = await owner.get(`/deployments/${back.data.id}`);
    expect(returned.changes.map(({ field }: { field: string }) => field)).toContain('env.OLD');
    expect(returned.changes.map(({ field }: { field: string }) => field)).not.toContain('env.SAME');
  });

  it('have no secret that was only sealed with another key since', async () => {
    const id = await anApplication({ env: { SAME: 'kept words', OLD: 'old words' } });
    const first = await deployed(id, 'img1');
    await owner.put(`/applications/${id}`, { env: { SAME: 'kept words', OLD: 'new words' } });
    const second = (await get(id)).deployment_id;
    await world.keyring.addKey();
    const key = keys.desired('default', 'deployment', first);
    const { value } = (await world.store.get(key))!;
    const renewed = world.keyring.resealRecord('default', value)!;
    await world.store.txn({ if: [], then: [{ put: key, value: renewed }] });
    expect(renewed).not.toBe(value);
    await world.settled();
    const { data } = await owner.get(`/deployments/${second}`);
    expect(data.changes).toEqual([{ field: 'env.OLD', change: 'changed', before: null, after: null }]);
  });
});
