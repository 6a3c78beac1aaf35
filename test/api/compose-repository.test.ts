import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { git } from '../../agent/tasks/git.ts';
import { repositoryFiles } from '../../agent/tasks/read-repository.ts';
import { openWorkFolder } from '../../agent/tasks/work-folder.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { deploymentController } from '../../controllers/deployment/reconcile.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { keys } from '../../store/keys.ts';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { gitHttpServer, testRepositories } from '../harness/git-server.ts';
import type { GitFiles, TestRepository } from '../harness/git-server.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let shop: TestRepository;
let source: object;
let place: { project_id: string; server_id: string };
/** What the agent wrote to the logs of builds, by instance. */
const logs = new Map<string, string[]>();

const file = `services:
  web:
    build: {context: web, args: {WORD: "$WORD"}, target: served}
    restart: always
    ports: ['8080:80']
  store:
    image: postgres:17
    restart: always
    env_file: [store.env, {path: none.env, required: false}]
    environment: {SHADE: kept}
    volumes: ['./note.txt:/etc/note.txt:ro', 'data:/data']
volumes: {data: {}}
`;
const files = (more: GitFiles = {}): GitFiles => ({
  'compose.yaml': file,
  'store.env': '# variables\nCOLOUR="dark $WORD"\nSHADE=lost\n',
  'note.txt': 'a note',
  ...more,
});

beforeAll(async () => {
  world = running.use(await startApi());
  const repositories = running.use(await testRepositories());
  const host = running.use(await gitHttpServer(repositories));
  shop = await repositories.create('shop');
  const read = repositoryFiles({
    git: git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
    disk: { check: async () => undefined },
    clock: systemClock,
  });
  const agents = {
    async call(_tenant: string, _server: string, params: { method: string }, { signal }: { signal: AbortSignal }) {
      const it = params as Parameters<typeof read>[0] & { method: string; instance: string; lines?: string[] }; // as agents read it
      const lines = logs.get(it.instance) ?? [];
      logs.set(it.instance, lines);
      if (it.method === 'build.note') return (lines.push(...(it.lines ?? [])), {});
      if (it.method !== 'repository.read') throw new Error(`Not expected: ${it.method}`);
      return read(it, (text) => lines.push(text), signal).catch((error: unknown) => {
        throw error instanceof RuntimeFailure ? new CallError(error.code, error.message) : error;
      });
    },
  };
  const operations = operationController({
    agents,
    machines: noMachines,
    installation: noInstallation,
    secrets: world.keyring,
  });
  const deployments = deploymentController({
    queueDeadlineMs: 3_600_000,
    buildDeadlineMs: 3_600_000,
    rolloutDeadlineMs: 3_600_000,
  });
  running.use(await lead(world, world.clock, operations, deployments));
  owner = await world.owner();
  const { project, server } = await world.place(owner);
  place = { project_id: project, server_id: server };
  source = {
    source_type: 'compose',
    repository_url: `${host.url}/shop.git`,
    branch: 'main',
    compose_path: 'compose.yaml',
    env: { WORD: 'sesame' },
  };
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

const without = (it: object, name: string) => Object.fromEntries(Object.entries(it).filter(([key]) => key !== name));
let number = 0;
async function made(fields: object = {}): Promise<string> {
  const { status, data } = await owner.post('/applications', {
    ...place,
    ...source,
    name: `app ${++number}`,
    ...fields,
  });
  expect({ status, data }).toMatchObject({ status: 201 });
  return data.id;
}
const deploy = async (app: string): Promise<string> => (await owner.post(`/applications/${app}/deploy`)).data.id;
const phaseOf = async (id: string) => (await world.repo.get('deployment', id))!.observed?.phase;
const reaches = (id: string, phase: string) => until(`it is ${phase}`, async () => (await phaseOf(id)) === phase);
const desiredOf = async (id: string) => (await world.repo.get('deployment', id))!.desired;
const buildOf = (id: string) => assignmentId.task(id, 'build/web');
async function read(app: string): Promise<string> {
  const id = await deploy(app);
  await until('its file is read', async () => (await desiredOf(id)).services !== undefined);
  return id;
}
/** What agent and controllers would report of a build and of instances. */
async function succeeds(id: string): Promise<void> {
  await until('its build is planned', async () => (await world.repo.get('assignment', buildOf(id))) !== undefined);
  const report = { ready: false, stable: false, restarts: 0, crash_loop: false };
  await world.observe('assignment', buildOf(id), { ...report, phase: 'succeeded', image_digest: `sha256:web-${id}` });
  await reaches(id, 'deploying');
  const { observed } = (await world.repo.get('deployment', id))!;
  const { conditions: _, observedGeneration: __, ...known } = observed!;
  const digests = { ...observed!.service_digests, store: 'sha256:store' };
  await world.observe('deployment', id, { ...known, phase: 'succeeded', service_digests: digests });
}

describe('an application of a compose file in a repository', () => {
  it('reads the file once, pins its commit, and builds a service of it', async () => {
    const head = await shop.commit(files(), { message: 'Begin' });
    const app = await made();
    expect((await owner.get(`/applications/${app}`)).data).toMatchObject({
      ...without(source, 'env'),
      compose_file: null,
    });
    const id = await read(app);
    const { commit, services } = await desiredOf(id);
    const { internal_id } = (await world.repo.get('application', app))!.desired;
    const image = `setpoint/${internal_id}:1-web`;
    expect(commit).toBe(head);
    expect(services).toMatchObject([
      { name: 'web', image, build: { context: 'web', target: 'served' }, version: id },
      { name: 'store', image: 'postgres:17', env_files: [], files: [{ path: '/etc/note.txt' }], version: id },
    ]);
    await until('its build is planned', async () => (await world.repo.get('assignment', buildOf(id))) !== undefined);
    expect((await world.repo.get('assignment', buildOf(id)))!.desired.spec).toMatchObject({
      type: 'build',
      commit: head,
      build_context: 'web',
      dockerfile_path: 'web/Dockerfile',
      target: 'served',
      image,
    });
    const entry = await world.store.get(keys.desired('default', 'deployment', id));
    for (const secret of ['sesame', 'a note', 'dark']) expect(entry!.value).not.toContain(secret);
    await shop.commit(files({ 'note.txt': 'a later note' }));
    await succeeds(id);
    expect((await owner.get(`/deployments/${id}`)).data).toMatchObject({ commit: head, commit_message: 'Begin' });
    expect(logs.get(assignmentId.task(id, 'build'))!.join('\n')).toContain('compose.yaml: Requests are for web');
  });

  it('gives services the variables and files of the repository: environment precedes env_file', async () => {
    await shop.commit(files());
    const app = await made();
    const id = await read(app);
    const { services } = await desiredOf(id);
    const open = (value: { $sealed: string; for: string }, path: string) =>
      world.keyring.unseal(value, { tenant: 'default', kind: 'application', id: app, path: `services.store.${path}` });
    const store = services![1]!;
    expect(open(store.env['COLOUR']!, 'env.COLOUR')).toBe('dark sesame');
    expect(open(store.env['SHADE']!, 'env.SHADE')).toBe('kept');
    const content = open(store.files[0]!.content!, 'files./etc/note.txt');
    expect(Buffer.from(content, 'base64').toString()).toBe('a note');
  });

  it('changes a variable at the commit that serves, and returns to an earlier deployment, without a build', async () => {
    const head = await shop.commit(files());
    const app = await made();
    const first = await read(app);
    await succeeds(first);
    await shop.commit(files({ 'compose.yaml': file.replace('postgres:17', 'postgres:18') }));
    await owner.patch(`/applications/${app}/env`, { WORD: 'other' });
    const second = (await owner.get(`/applications/${app}`)).data.deployment_id;
    expect(second).not.toBe(first);
    await reaches(second, 'deploying');
    const pinned = [
      { name: 'web', image_digest: `sha256:web-${first}`, version: second },
      { name: 'store', image: 'postgres:17', image_digest: 'sha256:store', version: second },
    ];
    expect(await desiredOf(second)).toMatchObject({ commit: head, services: pinned });
    expect(await world.repo.get('assignment', buildOf(second))).toBeUndefined();
    const { observed } = (await world.repo.get('deployment', second))!;
    const { conditions: _, observedGeneration: __, ...known } = observed!;
    await world.observe('deployment', second, { ...known, phase: 'succeeded' });
    const { data } = await owner.post(`/applications/${app}/rollback`, { deployment_id: first });
    const returned = await desiredOf(data.id);
    const before = await desiredOf(first);
    expect(returned.services!.map(({ env }) => env)).toEqual(before.services!.map(({ env }) => env));
    expect(returned.services).toMatchObject([
      { name: 'web', image_digest: `sha256:web-${first}`, version: data.id },
      { name: 'store', image_digest: 'sha256:store', version: data.id },
    ]);
    await reaches(data.id, 'deploying');
    expect(await world.repo.get('assignment', buildOf(data.id))).toBeUndefined();
  });

  it('reads paths from the folder of the file', { tags: [longTag] }, async () => {
    await shop.commit({
      'deploy/compose.yaml': file.replace('./note.txt', '../note.txt'),
      'deploy/store.env': '',
      'note.txt': 'n',
    });
    const { services } = await desiredOf(await read(await made({ compose_path: 'deploy/compose.yaml' })));
    expect(services).toMatchObject([{ build: { context: 'deploy/web' } }, { files: [{ path: '/etc/note.txt' }] }]);
  });

  it('fails with what is refused, each with its place, and names the commit', async () => {
    const wrong = file.replace('restart: always', 'privileged: true\n    network_mode: host');
    const head = await shop.commit(files({ 'compose.yaml': wrong }));
    const id = await deploy(await made());
    await reaches(id, 'failed');
    const { data } = await owner.get(`/deployments/${id}`);
    expect(data).toMatchObject({ commit: head, error: { code: 'compose_refused' } });
    for (const refused of [
      /line 4, column \d+: services.web.privileged/,
      /line 5, column \d+: services.web.network_mode/,
    ]) {
      expect(data.error.message).toMatch(refused);
      expect(logs.get(assignmentId.task(id, 'build'))!.join('\n')).toMatch(refused);
    }
  });

  it.each<[string, GitFiles, string, RegExp]>([
    [
      'a link out of the repository',
      { 'compose.yaml': { link: '/etc/passwd' } },
      'path_outside_repository',
      /leads out/,
    ],
    ['a folder', { 'compose.yaml': undefined as never, 'compose.yaml/x': '' }, 'invalid_source', /no regular file/],
    [
      'a file that is too long',
      { 'compose.yaml': `#${'x'.repeat(256 * 1024)}` },
      'invalid_source',
      /larger than 256 KiB/,
    ],
    ['a file of a service that is a link', { 'note.txt': { link: '/etc/passwd' } }, 'path_outside_repository', /note/],
    [
      'a file of a service that is missing',
      { 'note.txt': undefined as never },
      'compose_refused',
      /line 11.*note\.txt.*does not have/,
    ],
    [
      'a file of variables that is none',
      { 'store.env': 'no variable' },
      'compose_refused',
      /line 9.*store\.env.*line 1/,
    ],
  ])('refuses %s', async (_, more, code, message) => {
    const given = Object.entries(files(more)).filter(([, content]) => content !== undefined);
    await shop.commit(Object.fromEntries(given));
    const id = await deploy(await made());
    await reaches(id, 'failed');
    expect((await owner.get(`/deployments/${id}`)).data.error).toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it('fails where the file is not there, or the branch', { tags: [longTag] }, async () => {
    await shop.commit(files());
    for (const [fields, code] of [
      [{ compose_path: 'none.yaml' }, 'invalid_source'],
      [{ branch: 'none' }, 'branch_not_found'],
    ] as const) {
      const id = await deploy(await made(fields));
      await reaches(id, 'failed');
      expect((await owner.get(`/deployments/${id}`)).data.error.code).toBe(code);
    }
  });

  it('takes the fields of a repository with compose_path alone, and is changed from one form to the other', async () => {
    const refused = async (fields: object) => {
      const { status, body } = await owner.post('/applications', { ...place, ...source, name: 'refused', ...fields });
      expect(status).toBe(400);
      return body.error?.message;
    };
    expect(await refused({ compose_file: file })).toContain('not as both');
    expect(await refused({ branch: undefined })).toContain('branch is required');
    expect(await refused({ build_args: { A: 'b' } })).toContain('build_args');
    expect(await refused({ compose_path: undefined, compose_file: file })).toContain(
      'belongs to a compose file in a repository',
    );
    expect((await owner.post('/applications', { ...place, ...source, name: 'r', compose_path: '../x' })).status).toBe(
      400,
    );
    const app = await made();
    const text = 'services: {web: {image: nginx, restart: always}}';
    await owner.put(`/applications/${app}`, { compose_file: text });
    expect((await owner.get(`/applications/${app}`)).data).toMatchObject({ compose_path: null, repository_url: null });
    expect((await owner.get(`/applications/${app}/compose`)).data.compose_file).toBe(text);
    const back = without(source, 'env');
    expect((await owner.put(`/applications/${app}`, back)).data).toMatchObject(back);
  });
});
