import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { brief, Installation, onBothStores } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

for (const { store, tags } of onBothStores)
  describe(`processes that die on ${store}`, { tags }, () => {
    let town: Installation;
    let git: GitServer;
    let image: string;

    beforeAll(async () => {
      ({ http: image } = await ensureTestImages());
      git = await startGitServer();
      town = await Installation.start({ store });
    });
    afterAll(async () => {
      await town[Symbol.asyncDispose]();
      await git[Symbol.asyncDispose]();
    });

    const create = async (port: number): Promise<ApiObject> => {
      const { url } = await git.repository({ Dockerfile: `FROM ${image}\nENV MADE=here\n` });
      return town.createApplication({
        ...brief,
        source_type: 'git',
        repository_url: url,
        branch: 'main',
        dockerfile_path: 'Dockerfile',
        exposed_port: port,
        healthcheck_path: '/healthz',
        env: { PORT: String(port) },
      });
    };
    const answers = async (port: number): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/env/MADE`)).ok;
    const startedAt = (id: string): Promise<string> => docker('inspect', '--format', '{{.State.StartedAt}}', id);

    /** Deployments that began at different times, so that whoever is killed now is killed at every stage at once. */
    async function underWay(): Promise<{ app: ApiObject; deployment: ApiObject; port: number }[]> {
      const started: { app: ApiObject; deployment: ApiObject; port: number }[] = [];
      for (const pauseMs of [900, 600, 350, 150, 40]) {
        const port = await freePort();
        const app = await create(port);
        started.push({ app, port, deployment: await town.deploy(app.id) });
        await delay(pauseMs); // the difference is how far each of them has come
      }
      return started;
    }

    async function allEndWell(started: Awaited<ReturnType<typeof underWay>>): Promise<void> {
      await Promise.all(started.map((it) => town.deployment(it.deployment.id, 'succeeded', 120_000)));
      for (const { app, port } of started) {
        expect(await answers(port)).toBe(true);
        expect(await instancesOf(app.id)).toHaveLength(1);
      }
    }

    it('a control plane killed in the middle of deployments finishes them', async () => {
      const started = await underWay();
      await town.replicas[0]!.program.restart();
      await town.ready();
      await allEndWell(started);
    }, 240_000);

    it(
      'workloads serve and are repaired while the control plane is down, and nothing restarts when it returns',
      { tags: [longTag], timeout: 240_000 },
      async () => {
        const port = await freePort();
        const app = await create(port);
        await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
        const plane = town.replicas[0]!.program;
        await plane.kill();
        expect(await answers(port)).toBe(true);
        await docker('rm', '--force', (await instancesOf(app.id))[0]!);
        await town.until('it serves again', () => answers(port), 15_000);
        await town.agent.restart();
        await town.until('it still serves', () => answers(port), 15_000);
        const [container] = await instancesOf(app.id);
        const since = await startedAt(container!);
        plane.start();
        await town.ready();
        await town.until(
          'the agent is back',
          async () => {
            const it = await town.client.request('GET', `/api/v1/servers/${town.server.id}/agent-status`);
            return JSON.stringify(it).includes('"connected"');
          },
          90_000,
        );
        await town.until(
          'the application is running',
          async () => (await town.application(app.id)).status === 'running',
          60_000,
        );
        expect(await instancesOf(app.id)).toEqual([container]);
        expect(await startedAt(container!)).toBe(since);
      },
    );

    it('an agent killed in the middle of deployments adopts what it made and makes no twin', async () => {
      const started = await underWay();
      await town.agent.restart();
      await allEndWell(started);
    }, 240_000);

    it(
      'an agent that is gone makes the server offline and the application unknown within a minute, and truth returns with it',
      { tags: [longTag], timeout: 240_000 },
      async () => {
        const port = await freePort();
        const app = await create(port);
        await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
        await town.agent.kill();
        await town.until(
          'the agent is disconnected',
          async () => {
            const it = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
            return it['agent_status'] === 'disconnected';
          },
          10_000,
        );
        await town.until(
          'the server is offline',
          async () => {
            const it = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
            const one = await town.application(app.id);
            const ready = one.conditions?.find((condition) => condition.type === 'Ready');
            return it.status === 'offline' && one.status === 'error' && ready?.status === 'unknown';
          },
          60_000,
        );
        expect(await answers(port)).toBe(true);
        town.agent.start();
        await town.until(
          'all is well again',
          async () => (await town.application(app.id)).status === 'running',
          60_000,
        );
      },
    );
  });

describe('two replicas on one etcd', () => {
  it('finish a deployment when the leader is killed, and the other answers throughout', async () => {
    const { http: image } = await ensureTestImages();
    await using git = await startGitServer();
    await using town = await Installation.start({ store: 'etcd', replicas: 2 });
    const { url } = await git.repository({ Dockerfile: `FROM ${image}\nRUN sleep 3\n` });
    const port = await freePort();
    const app = await town.createApplication({
      ...brief,
      source_type: 'git',
      repository_url: url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      exposed_port: port,
      healthcheck_path: '/healthz',
      env: { PORT: String(port) },
    });
    const leader = await town.until('one replica leads', async () => {
      for (const [index, replica] of town.replicas.entries()) {
        const metrics = await (await fetch(`${replica.url}/metrics`)).text();
        if (/^setpoint_leader(\{[^}]*\})? 1$/m.test(metrics)) return { index };
      }
      return undefined;
    });
    const other = town.clientAt(1 - leader.index);
    const deployment = await other.object('POST', `/api/v1/applications/${app.id}/deploy`, {});
    await town.until(
      'it is being built',
      async () => (await other.object('GET', `/api/v1/deployments/${deployment.id}`)).status === 'building',
    );
    await town.replicas[leader.index]!.program.kill();
    let asked = 0;
    const ended = await town.until(
      'the deployment succeeds',
      async () => {
        asked += 1;
        const it = await other.object('GET', `/api/v1/deployments/${deployment.id}`);
        await other.list('/api/v1/applications');
        if (it.status === 'failed') throw new Error(JSON.stringify(it['error']));
        return it.status === 'succeeded' ? it : undefined;
      },
      120_000,
    );
    expect(asked).toBeGreaterThan(1);
    expect(ended['is_current']).toBe(true);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).ok).toBe(true);
  }, 240_000);
});
