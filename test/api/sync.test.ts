import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sendTogether } from '../harness/send-together.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';
import { systemClock } from '../../time/clock.ts';
import { git } from '../../agent/tasks/git.ts';
import { headReader } from '../../agent/tasks/read-head.ts';
import { openWorkFolder } from '../../agent/tasks/work-folder.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { gitHttpServer, testRepositories } from '../harness/git-server.ts';
import type { TestRepository } from '../harness/git-server.ts';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let store: InterruptibleStore;
let owner: Client;
let shop: TestRepository;
let app: string;
let serves: string;

beforeAll(async () => {
  world = running.use(await startApi({ wrap: (inner) => (store = new InterruptibleStore(inner)) }));
  const repositories = running.use(await testRepositories());
  const host = running.use(await gitHttpServer(repositories));
  shop = await repositories.create('shop');
  serves = await shop.commit({ 'src/main.ts': '1', 'docs/a.md': '1' });

  // The agent's part, called by the controller's part, for each operation that the interface creates.
  const readHead = headReader({
    git: git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
  });
  const controller = operationController({
    agents: {
      async call(_tenant, _server, params, { signal }) {
        if (params.method !== 'git.head') throw new Error(`Not expected: ${params.method}`);
        return readHead({ url: params.repository_url, branch: params.branch, since: params.since }, signal);
      },
    },
    machines: noMachines,
    installation: noInstallation,
  });
  running.use(await lead(world, world.clock, controller));

  owner = await world.owner();
  const place = await world.place(owner);
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: 'shop',
    source_type: 'git',
    repository_url: `${host.url}/shop.git`,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    autodeploy: true,
    watch_paths: 'src/**\n!**/*.md',
  });
  app = made.data.id;
  const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
  await world.observe('deployment', deployment, { phase: 'succeeded', image: 'i', image_digest: 'd', commit: serves });
  await world.observe('application', app, {
    phase: 'running',
    consecutive_failures: 0,
    ready_replicas: 1,
    crash_loop_counted: false,
    current_deployment_id: deployment,
    current_commit: serves,
  });
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

const sync = async (body?: object) => (await owner.post(`/applications/${app}/deployments/sync`, body)).data;
const deployments = async () => (await owner.get(`/applications/${app}/deployments`)).data.length;

it('a push is deployed where it changes a watched file, and shown in any case', async () => {
  const known = { current_commit: serves, branch: 'main', changed_files_known: true };
  expect(await sync()).toEqual({
    ...known,
    up_to_date: true,
    latest_commit: serves,
    changed_files: [],
    matched: false,
    decision: 'up_to_date',
    reason: `What serves is of the head of the branch, ${serves.slice(0, 12)}`,
    deployment_id: null,
  });

  const documented = await shop.commit({ 'src/main.ts': '1', 'src/README.md': '1', 'docs/a.md': '2' });
  expect(await sync()).toEqual({
    ...known,
    up_to_date: false,
    latest_commit: documented,
    changed_files: ['docs/a.md', 'src/README.md'],
    matched: false,
    decision: 'not_matched',
    reason: 'No file that differs from what serves is one of watch_paths',
    deployment_id: null,
  });
  expect(await deployments()).toBe(1);

  const changed = await shop.commit({ 'src/main.ts': '2', 'docs/a.md': '1' });
  expect(await sync({ dry_run: true })).toMatchObject({
    matched: true,
    decision: 'would_deploy',
    reason: `The head of the branch, ${changed.slice(0, 12)}, is to be deployed`,
    deployment_id: null,
  });
  expect(await deployments()).toBe(1);
  const answer = await sync();
  expect(answer).toEqual({
    ...known,
    up_to_date: false,
    latest_commit: changed,
    changed_files: ['src/main.ts'],
    matched: true,
    decision: 'deployed',
    reason: `Deployment 2 brings commit ${changed.slice(0, 12)}`,
    deployment_id: expect.any(String),
  });
  expect((await owner.get(`/deployments/${answer.deployment_id}`)).data).toMatchObject({
    trigger: 'webhook',
    number: 2,
    commit: changed,
  });
  expect(await sync()).toMatchObject({
    matched: true,
    decision: 'deploying',
    reason: 'Deployment 2 of this commit is under way',
    deployment_id: null,
  });
  expect(await deployments()).toBe(2);

  // the newest push wins: it takes the place of the deployment under way
  const newer = await shop.commit({ 'src/main.ts': '3', 'docs/a.md': '1' });
  const next = await sync();
  expect(next).toMatchObject({ decision: 'deployed', latest_commit: newer });
  expect((await owner.get(`/applications/${app}`)).data).toMatchObject({ status: 'deploying' });
  expect((await owner.get(`/deployments/${next.deployment_id}`)).data).toMatchObject({ number: 3, commit: newer });

  // a revert: no watched file differs from what serves, but the deployment under way must not come to serve
  const reverted = await shop.commit({ 'src/main.ts': '1', 'docs/a.md': '1' });
  await owner.put(`/applications/${app}`, { autodeploy: false });
  expect(await sync()).toMatchObject({ decision: 'autodeploy_off', deployment_id: null });
  await owner.put(`/applications/${app}`, { autodeploy: true });
  expect(await sync()).toMatchObject({ matched: false, decision: 'deployed', latest_commit: reverted });
  expect(await deployments()).toBe(4);
});

it('what was deployed by a comparison is in the audit log', async () => {
  const { data } = await owner.get('/audit?limit=100');
  const made = data.filter((it: { route: string }) => it.route === 'controller autodeploy');
  expect(made).toHaveLength(3);
  expect(made[0].objects).toContainEqual(expect.objectContaining({ kind: 'deployment', action: 'create' }));
});

it('comparisons that are asked for at once are one, and a later one is another', async () => {
  const operations = () => world.mirror.tenant('default').by('operation', 'application', app).length;
  const before = operations();
  sendTogether(store, 'operation', 2);
  const [one, other] = await Promise.all([sync(), sync()]);
  expect(other).toEqual(one);
  expect(operations()).toBe(before + 1);
  await sync();
  expect(operations()).toBe(before + 2);
});
