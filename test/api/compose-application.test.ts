import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let place: { project_id: string; server_id: string };
beforeAll(async () => {
  world = await startApi();
  owner = await world.user('superadmin');
  const project = (await owner.post('/projects', { name: 'shop' })).data.id;
  const server = (await owner.post('/servers', { name: 'one' })).data.id;
  place = { project_id: project, server_id: server };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const file = `services:
  db:
    image: postgres:17
    restart: always
    environment: {PASSWORD: "$PASSWORD"}
    volumes: ['data:/var/lib/postgresql/data']
  web:
    image: nginx:1.27
    restart: always
    environment: {COLOUR: "\${COLOUR:-red}"}
    ports: ['8080:80']
    depends_on: [db]
volumes: {data: {}}
`;
let number = 0;
const made = async (fields: object = {}): Promise<string> => {
  const body = { ...place, name: `app ${++number}`, source_type: 'compose', compose_file: file };
  const { status, data } = await owner.post('/applications', { ...body, env: { PASSWORD: 'open sesame' }, ...fields });
  expect({ status, data }).toMatchObject({ status: 201 });
  return data.id;
};
const servicesOf = async (deployment: string) => (await world.repo.get('deployment', deployment))!.desired.services!;
/** What the controllers would write of a deployment. */
const succeeds = (id: string) =>
  world.observe('deployment', id, {
    phase: 'succeeded',
    image: 'nginx:1.27',
    image_digest: 'sha256:web',
    service_digests: { web: 'sha256:web', db: 'sha256:db' },
  });
const deployed = async (app: string): Promise<string> => {
  const { data } = await owner.post(`/applications/${app}/deploy`);
  await succeeds(data.id);
  return data.id;
};

describe('an application of a compose file', () => {
  it('is deployed as services, the one that requests are for first, and keeps no value in plain text', async () => {
    const app = await made();
    const deployment = await deployed(app);
    expect(await servicesOf(deployment)).toMatchObject([
      { name: 'web', version: deployment, ports: [{ port: 80, publish: 8080 }], depends_on: [{ service: 'db' }] },
      { name: 'db', version: deployment, mounts: [{ volume: 'data' }] },
    ]);
    const entry = await world.store.get(keys.desired('default', 'deployment', deployment));
    expect(entry!.value).not.toContain('sesame');
    expect(entry!.value).not.toContain('restart: always');
  });

  it('keeps no command in plain text, and knows one that has not changed', async () => {
    const commands = `command: [dispense, "--token=$PASSWORD"]
    entrypoint: [/start, "$PASSWORD"]
    healthcheck: {test: [CMD, ask, "-a", "$PASSWORD"]}
    restart: always`;
    const app = await made({ compose_file: file.replace('restart: always', commands) });
    const first = await deployed(app);
    const entry = await world.store.get(keys.desired('default', 'deployment', first));
    for (const word of ['dispense', '/start', 'ask', 'sesame']) expect(entry!.value).not.toContain(`"${word}`);
    expect((await servicesOf(await deployed(app)))[1]).toMatchObject({ name: 'db', version: first });
  });

  it('shows its file by a route of its own, with what the deployment made of it', async () => {
    const app = await made();
    expect((await owner.get(`/applications/${app}`)).data).toMatchObject({
      source_type: 'compose',
      compose_file: null,
    });
    const deployment = await deployed(app);
    const { data } = await owner.get(`/applications/${app}/compose`);
    expect(data).toMatchObject({ compose_file: file, deployment_id: deployment, services: [{ name: 'web' }, {}] });
    expect(data.notes[0]).toContain('Requests are for web');
    expect((await owner.get(`/deployments/${deployment}`)).data.notes).toEqual(data.notes);
  });

  it('is refused with each key that is, before anything is written', async () => {
    const compose_file = `${file.replace('restart: always', 'privileged: true')}`;
    const body = { ...place, name: 'refused', source_type: 'compose', env: { PASSWORD: 'x' } };
    const { status, data, body: answer } = await owner.post('/applications', { ...body, compose_file });
    expect({ status, data }).toMatchObject({ status: 400 });
    expect(answer.error?.message).toContain('services.db.privileged');
    const wrong = { compose_service: 'none' };
    expect(
      (await owner.post('/applications', { ...body, compose_file: file, ...wrong })).body.error?.message,
    ).toContain('it has db, web');
    const outside = { start_command: 'run' };
    expect(
      (await owner.post('/applications', { ...body, compose_file: file, ...outside })).body.error?.message,
    ).toContain('belongs to a service of the compose file');
  });

  it('takes back what GET answers, and what its services have for themselves only as it is', async () => {
    const app = await made({ restart_policy: 'always' });
    const { data: shown } = await owner.get(`/applications/${app}`);
    const { status, data, body } = await owner.put(`/applications/${app}`, { ...shown, name: 'renamed' });
    expect([status, body.error]).toEqual([200, undefined]);
    const { updated_at, resource_version, generation } = data;
    expect(data).toEqual({ ...shown, name: 'renamed', updated_at, resource_version, generation });
    expect((await owner.get(`/applications/${app}/compose`)).data.compose_file).toBe(file);
    const others = {
      restart_policy: 'never',
      memory_limit: '64m',
      start_command: 'run',
      ulimits: { core: { soft: 1, hard: 1 } },
    };
    for (const [name, value] of Object.entries(others)) {
      const answer = await owner.put(`/applications/${app}`, { [name]: value });
      expect([answer.status, answer.body.error?.details?.[0]?.field], name).toEqual([400, name]);
    }
    const refused = { ...place, name: 'refused', source_type: 'compose', compose_file: file, restart_policy: 'never' };
    expect((await owner.post('/applications', refused)).body.error?.details?.[0]?.field).toBe('restart_policy');
  });

  it('that had an image keeps the limits of that, and takes them back as they are', async () => {
    const limits = {
      restart_policy: 'never',
      start_command: 'run',
      memory_limit: '64m',
      cpu_limit: '0.5',
      shm_size: '32m',
      pids_limit: 100,
      ulimits: { nofile: { soft: 1024, hard: 2048 } },
    };
    const image = { ...place, name: `app ${++number}`, source_type: 'image', image_url: 'nginx:1.27', ...limits };
    const { data: before } = await owner.post('/applications', { ...image, env: { PASSWORD: 'x' } });
    const path = `/applications/${before.id}`;
    const composed = { ...before, source_type: 'compose', image_url: null, compose_file: file };
    expect((await owner.put(path, composed)).data).toMatchObject({ source_type: 'compose', ...limits });
    const { data: shown } = await owner.get(path);
    const sent = await owner.put(path, { ...shown, name: 'renamed again' });
    expect([sent.status, sent.body.error]).toEqual([200, undefined]);
    expect(sent.data).toMatchObject({ name: 'renamed again', ...limits });
    expect((await owner.put(path, { ...shown, memory_limit: '65m' })).status).toBe(400);
  });

  it('has a text of at most 256 KiB, as the route that checks one says', async () => {
    const most = `${file}#${'x'.repeat(256 * 1024 - Buffer.byteLength(file) - 1)}`;
    const app = await made({ compose_file: most });
    expect((await owner.get(`/applications/${app}/compose`)).data.compose_file).toBe(most);
    await deployed(app);
    expect((await owner.put(`/applications/${app}`, { compose_file: `${most}x` })).status).toBe(400);
    const check = (content: string) => owner.post('/compose/validate', { content, env: { PASSWORD: 'x' } });
    expect((await check(most)).data.valid).toBe(true);
    expect((await check(`${most}x`)).status).toBe(400);
  });

  it('leads requests to the service that is named', async () => {
    const app = await made({ compose_service: 'db' });
    expect(await servicesOf(await deployed(app))).toMatchObject([{ name: 'db' }, { name: 'web' }]);
  });

  it('leaves a service with a volume that does not change as it is, and makes the others anew', async () => {
    const app = await made();
    const first = await deployed(app);
    const second = await deployed(app);
    expect(await servicesOf(second)).toMatchObject([
      { name: 'web', version: second },
      { name: 'db', version: first, image_digest: 'sha256:db' },
    ]);
  });

  it('replaces only what another value of a variable changes, with the images of before', async () => {
    const app = await made();
    const first = await deployed(app);
    await owner.patch(`/applications/${app}/env`, { COLOUR: 'blue' });
    const second = (await owner.get(`/applications/${app}`)).data.deployment_id;
    expect(second).not.toBe(first);
    expect(await servicesOf(second)).toMatchObject([
      { name: 'web', version: second, image_digest: 'sha256:web' },
      { name: 'db', version: first },
    ]);
    await succeeds(second);
    await owner.patch(`/applications/${app}/env`, { PASSWORD: 'other' });
    const third = (await owner.get(`/applications/${app}`)).data.deployment_id;
    expect(await servicesOf(third)).toMatchObject([
      { name: 'web', version: second },
      { name: 'db', version: third },
    ]);
  });

  it('returns to the file, the variables and the images of an earlier deployment', async () => {
    const app = await made();
    const first = await deployed(app);
    await owner.put(`/applications/${app}`, { compose_file: file.replace('nginx:1.27', 'nginx:1.28') });
    const second = await deployed(app);
    expect((await servicesOf(second))[0]).toMatchObject({ image: 'nginx:1.28', version: second });
    const { data } = await owner.post(`/applications/${app}/rollback`, { deployment_id: first });
    expect((await servicesOf(data.id))[0]).toMatchObject({ image: 'nginx:1.27', image_digest: 'sha256:web' });
    expect((await owner.get(`/applications/${app}/compose`)).data.compose_file).toBe(file);
  });

  it('does not scale a service that writes to a volume, and runs a command with the image of a service', async () => {
    const app = await made({ compose_service: 'db' });
    await deployed(app);
    expect((await owner.post(`/applications/${app}/scale`, { replicas: 2 })).status).toBe(409);
    const run = await owner.post(`/applications/${app}/run`, { command: ['id'], service: 'web' });
    expect(run).toMatchObject({ status: 201, data: { service: 'web' } });
    expect((await owner.post(`/applications/${app}/run`, { command: ['id'], service: 'none' })).status).toBe(400);
    expect((await owner.post(`/applications/${app}/run`, { command: ['id'] })).status).toBe(409);
  });
});
