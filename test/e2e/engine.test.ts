import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { EngineProxy } from '../harness/engine-proxy.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

/** The tests tell one story: each begins where the one before ended. */
describe('a container engine that does not answer', () => {
  let town: Installation;
  let git: GitServer;
  let engine: EngineProxy;
  let folder: string;
  let image: string;
  let port: number;
  let app: ApiObject;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    git = await startGitServer();
    folder = await mkdtemp(join(tmpdir(), 'setpoint-engine-'));
    engine = new EngineProxy(join(folder, 'docker.sock'));
    await engine.open();
    town = await Installation.start({
      store: 'sqlite',
      agentFlags: ['--docker-socket', engine.path],
      serverFlags: ['--rollout-deadline-seconds', '30', '--build-deadline-seconds', '40'],
    });
    port = await freePort();
    const fields = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    app = await town.createApplication({ ...brief, ...(await source('blue')), ...fields });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
    await git[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const conditionOf = (it: ApiObject, type: string) => it.conditions?.find((one) => one.type === type);
  const server = (): Promise<ApiObject> => town.client.object('GET', `/api/v1/servers/${town.server.id}`);
  const serverIs = (status: string): Promise<ApiObject> =>
    town.until(`the server is ${status}`, async () => {
      const it = await server();
      return it.status === status ? it : undefined;
    });
  const instances = (): Promise<ApiObject[]> => town.client.list(`/api/v1/applications/${app.id}/instances`);
  /** By a connection of its own: one that is kept goes on to the instance that is drained. */
  const colour = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}/env/COLOUR`, { headers: { connection: 'close' } })).text();
  const source = async (colour: string): Promise<Record<string, unknown>> => ({
    source_type: 'git',
    image_url: null,
    repository_url: (await git.repository({ Dockerfile: `FROM ${image}\nENV COLOUR=${colour}\n` })).url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  const waits = (deployment: ApiObject): Promise<unknown> =>
    town.until('it waits for the engine', async () => {
      const it = await town.client.object('GET', `/api/v1/deployments/${deployment.id}`);
      const ready = conditionOf(it, 'Ready');
      return ready?.reason === 'WaitingForServer' && /engine/.test(ready.message);
    });

  it('at the start of the agent: it connects all the same and says what to do; what is asked for waits', async () => {
    await town.agent.kill();
    await engine.close();
    town.agent.start();
    const it = await serverIs('error');
    expect(it['agent_status']).toBe('connected');
    expect(conditionOf(it, 'EngineReady')).toMatchObject({ status: 'false', reason: 'EngineNotRunning' });
    expect(conditionOf(it, 'EngineReady')?.message).toMatch(/docker\.sock.*systemctl start docker/);

    const deployment = await town.deploy(app.id);
    await waits(deployment);
    await engine.open();
    await serverIs('active');
    await town.deployment(deployment.id, 'succeeded', 120_000);
    expect(await colour()).toBe('blue');
    expect(conditionOf(await server(), 'EngineReady')).toMatchObject({ status: 'true' });
  });

  it('for as long as a restart takes: no user is notified, and the agent listens again', async () => {
    const before = await instancesOf(app.id);
    const outages = async () =>
      (await town.agent.log()).split(
        'The container engine does not answer: instances go on, and no instance is changed until it answers',
      ).length;
    const known = await outages();
    await engine.close();
    await town.until('the agent misses it', async () => (await outages()) > known);
    await engine.open();
    await docker('rm', '--force', before[0]!); // the agent sees this only if it listens again
    await town.until('it is back', async () => {
      const now = await instancesOf(app.id);
      return now.length === 1 && now[0] !== before[0] && (await colour()) === 'blue';
    });
    const events = JSON.stringify(await town.client.request('GET', `/api/v1/servers/${town.server.id}/events`));
    expect(events.match(/"EngineNotRunning"/g)).toHaveLength(1); // of the test before
  });

  it('while instances run: they go on, are reported as unknown, and nothing is touched when it returns', async () => {
    const [before] = await instancesOf(app.id);
    await town.until('it is ready', async () => (await instances())[0]?.['ready'] === true);
    await engine.close();
    await serverIs('error');
    await town.until('the instance is unknown', async () => {
      const [it] = await instances();
      return it?.status === 'unknown' && it['ready'] === false;
    });
    await town.until('the application says why', async () => {
      const ready = conditionOf(await town.application(app.id), 'Ready');
      return ready?.status === 'unknown' && ready.reason === 'EngineNotReady';
    });
    expect(await colour()).toBe('blue');
    await engine.open();
    await serverIs('active');
    await town.until('it is ready', async () => (await instances())[0]?.['ready'] === true);
    expect((await town.application(app.id)).status).toBe('running');
    expect(await instancesOf(app.id)).toEqual([before]);
  });

  it('in the middle of a build: the build begins again', { tags: 'long' }, async () => {
    await town.ensureDeployed(app.id);
    const repository = await git.repository({
      Dockerfile: `FROM ${image}\nENV COLOUR=green\nRUN echo begun ${crypto.randomUUID()} && sleep 4\n`,
    });
    await town.client.request('PUT', `/api/v1/applications/${app.id}`, { repository_url: repository.url });
    const deployment = await town.deploy(app.id);
    const log = async (): Promise<string> =>
      JSON.stringify(await town.client.request('GET', `/api/v1/deployments/${deployment.id}/logs`));
    await town.until('the step runs', async () => / begun [0-9a-f-]{36}"/.test(await log()));
    await engine.close();
    await engine.open();
    await town.deployment(deployment.id, 'succeeded', 90_000);
    expect(await colour()).toBe('green');
    expect(await log()).toContain('the build begins again');
  });

  it(
    'for longer than a deployment may wait: it fails and says so, the older one serves, the next is fine',
    { tags: 'long' },
    async () => {
      await engine.close();
      await serverIs('error');
      const deployment = await town.deploy(app.id);
      await waits(deployment);
      const failed = await town.deployment(deployment.id, 'failed', 150_000);
      expect(failed['error']).toMatchObject({
        message: expect.stringMatching(/container engine .*does? not answer|did not answer/),
      });
      expect(await colour()).toBe('green');
      await engine.open();
      await serverIs('active');
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', 120_000);
      expect(await colour()).toBe('green');
    },
  );
});
