import { afterAll, beforeAll, expect, it } from 'vitest';
import { builtRelease } from '../harness/built-release.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

let town: Installation;
let git: GitServer;
let image: string;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  git = await startGitServer();
  town = await Installation.start({ store: 'sqlite', agentExecutable: (await builtRelease()).executable });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await git[Symbol.asyncDispose]();
});

it('the executable of a release builds and runs an application, and finds it again after a restart', async () => {
  const port = await freePort();
  const repository = await git.repository({ Dockerfile: `FROM ${image}\nENV REVISION=one\n` });
  const app = await town.createApplication({
    ...brief,
    source_type: 'git',
    repository_url: repository.url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port) },
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', 120_000);
  const answer = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/env/REVISION`)).text();
  expect(await answer()).toBe('one');
  await town.agent.restart();
  await town.until('the agent is connected again', async () => {
    const it = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
    return it['agent_status'] === 'connected';
  });
  expect(await answer()).toBe('one');
});
