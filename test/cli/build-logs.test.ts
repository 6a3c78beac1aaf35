import { readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { Town } from '../harness/command-line.ts';
import type { TestRepository } from '../harness/git-server.ts';
import { testRepositories } from '../harness/git-server.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const stack = new AsyncDisposableStack();
const Lines = z.object({ lines: z.array(z.object({ message: z.string(), stream: z.string() })) });
const monthMs = 30 * 86_400_000;

let town: Town;
let repository: TestRepository;
let app: ApiObject;

beforeAll(async () => {
  const repositories = stack.use(await testRepositories());
  repository = await repositories.create('shop');
  town = stack.use(await Town.start());
  await repository.commit({ Dockerfile: 'FROM scratch\n' });
  const [server] = await town.client.list('/api/v1/servers');
  app = await town.client.object('POST', '/api/v1/applications', {
    project_id: town.project.id,
    server_id: server!.id,
    name: 'web',
    source_type: 'git',
    repository_url: repository.fileUrl,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
}, 120_000);

afterAll(() => stack.disposeAsync());

async function deploy(status: string): Promise<string> {
  const { id } = await town.client.object('POST', `/api/v1/applications/${app.id}/deploy`);
  const isSo = async () => (await town.client.object('GET', `/api/v1/deployments/${id}`)).status === status;
  await until(`deployment is ${status}`, isSo, { timeoutMs: 60_000 });
  return id;
}

async function linesOf(path: string) {
  return Lines.parse(await town.client.request('GET', `/api/v1${path}`)).lines;
}

const folder = () => join(town.cli.home, 'agent', 'logs', app.id);
const segments = async () => (await readdir(folder())).filter((name) => name.endsWith('.log'));

test('the build logs of an application say why its build failed', async () => {
  await deploy('succeeded');
  await repository.commit({ 'README.md': 'without a Dockerfile\n' });
  const failed = await deploy('failed');
  const why = { message: 'The repository has no file Dockerfile', stream: 'system' };
  expect(await linesOf(`/applications/${app.id}/build-logs`)).toContainEqual(why);
  expect(await linesOf(`/deployments/${failed}/build-logs`)).toContainEqual(why);
});

test(
  'the log of a build outlives the retention of the server, as long as its deployment is there',
  { tags: [longTag] },
  async () => {
    await repository.commit({ Dockerfile: 'FROM scratch\n' });
    const id = await deploy('succeeded');
    const before = await linesOf(`/deployments/${id}/build-logs`);
    const all = await linesOf(`/applications/${app.id}/build-logs`);
    expect(before.length).toBeGreaterThan(3);
    // A month passes on the server, whose logs stay a week.
    await town.agent.kill();
    const old = new Date(Date.now() - monthMs);
    const [written = ''] = await segments();
    await utimes(join(folder(), written), old, old);
    town.agent.start();
    await until('the old segment is removed', async () => !(await segments()).includes(written));
    await until('the agent answers', () => linesOf(`/deployments/${id}/build-logs`).then((lines) => lines.length > 0));
    // the engine in memory has lost the image, which adds a line
    expect((await linesOf(`/deployments/${id}/build-logs`)).slice(0, before.length)).toEqual(before);
    expect((await linesOf(`/applications/${app.id}/build-logs`)).slice(0, all.length)).toEqual(all);
  },
);

test('with its application the log is gone from the server', { tags: [longTag] }, async () => {
  expect(await readdir(folder())).not.toEqual([]);
  await town.client.request('DELETE', `/api/v1/applications/${app.id}`);
  const isGone = async () => !(await readdir(join(folder(), '..'))).includes(app.id);
  await until('the log is removed', isGone, { timeoutMs: 60_000 });
});
