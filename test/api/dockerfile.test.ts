import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { dockerfilePreview } from '../../agent/tasks/generated-dockerfile.ts';
import { git } from '../../agent/tasks/git.ts';
import { openWorkFolder } from '../../agent/tasks/work-folder.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import { operationController } from '../../controllers/operation/reconcile.ts';
import { keys } from '../../store/keys.ts';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { gitHttpServer, testRepositories, type TestRepository } from '../harness/git-server.ts';
import { lead } from '../harness/leading.ts';
import { noInstallation, noMachines } from '../harness/no-machines.ts';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let shop: TestRepository;
let app: string;

beforeAll(async () => {
  world = running.use(await startApi());
  const repositories = running.use(await testRepositories());
  const host = running.use(await gitHttpServer(repositories));
  shop = await repositories.create('shop');

  // The agent's part, called by the controller's part, for each operation that the interface creates.
  const preview = dockerfilePreview({
    git: git({ clock: systemClock, protocols: ['http'], fileRoots: [], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
    runtime: { builder: () => Promise.resolve({ type: 'classic' }) },
    disk: { check: () => Promise.resolve() },
    clock: systemClock,
  });
  const controller = operationController({
    agents: {
      async call(_tenant, _server, params, { signal }) {
        if (params.method !== 'dockerfile.generate') throw new Error(`Not expected: ${params.method}`);
        return preview(params, signal).catch((error: unknown) => {
          throw error instanceof RuntimeFailure ? new CallError(error.code, error.message) : error;
        });
      },
    },
    machines: noMachines,
    installation: noInstallation,
  });
  running.use(await lead(world, world.clock, controller));

  owner = await world.owner();
  const place = await world.place(owner);
  const live = JSON.stringify({
    replica: 'r',
    session: 's',
    machineId: 'm',
    capabilities: ['build.generate', 'build.secrets'],
  });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', place.server), value: live }] });
  await world.settled();
  const made = await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: 'shop',
    source_type: 'git',
    repository_url: `${host.url}/shop.git`,
    branch: 'main',
    dockerfile_path: 'auto',
    build_args: { API_URL: 'https://api.example.com' },
    build_secrets: { npmrc: 'secret-of-npm', other: 'other-secret' },
    exposed_port: 8090,
  });
  expect(made.data).toMatchObject({ dockerfile_path: 'auto' });
  app = made.data.id;
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

it('shows the Dockerfile that would be generated, with its reasons and the commit', async () => {
  const commit = await shop.commit({ 'package.json': '{"scripts":{"start":"node a.js","build":"x"}}' });
  const { status, data } = await owner.post(`/applications/${app}/dockerfile`);
  expect(status).toBe(200);
  expect(data).toMatchObject({
    commit,
    branch: 'main',
    language: 'node',
    ignore: ['.git', '**/node_modules', expect.any(String)],
  });
  expect(data.dockerfile).toMatch(/^ARG API_URL$[^]*^ENV PORT=8090$[^]*^CMD \["node", "a\.js"\]$/m);
  expect(data.dockerfile).not.toContain('api.example.com');
  expect(data.dockerfile).toMatch(/^RUN --mount=type=secret,id=npmrc,\S+ npm install$/m);
  expect(data.reasons.join('\n')).toMatch(/No step mounts the build secret other:/);
  expect(JSON.stringify(data)).not.toMatch(/secret-of-npm|other-secret/);
  expect(data.reasons).toContain('package.json: it starts by the script start');
});

it('answers with what to add where none can be generated', async () => {
  await shop.commit({ 'README.md': '' });
  const { status, body } = await owner.post(`/applications/${app}/dockerfile`);
  expect(status).toBe(409);
  expect(body.error?.message).toContain('Add one of them, add a Dockerfile');
});

it('a deployment shows the Dockerfile of its build', async () => {
  const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
  expect((await owner.get(`/deployments/${deployment}`)).data.dockerfile).toBeNull();
  await world.observe('deployment', deployment, { phase: 'failed', dockerfile: 'FROM a\n' });
  expect((await owner.get(`/deployments/${deployment}`)).data.dockerfile).toBe('FROM a\n');
});
