import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { docker, instancesOf } from './engine.ts';
import { startGitServer, type GitServer } from './git-server.ts';
import { Installation } from './installation.ts';
import { freePort } from './program.ts';
import { ensureTestImages } from './test-image.ts';

/** The life of an application on a real engine and that store, from its source to its deletion. */
export function describeApplications(store: 'sqlite' | 'etcd'): void {
  describe(`an application on ${store}`, () => live(store));
}

function live(store: 'sqlite' | 'etcd'): void {
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

  it('goes from git to a container that answers, with its build shown line by line while it happens', async () => {
    const port = await freePort();
    const repository = await git.repository({
      Dockerfile: `FROM ${image}\nENV REVISION=one\nRUN echo a line of the build\n`,
    });
    const app = await town.createApplication({
      source_type: 'git',
      repository_url: repository.url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      exposed_port: port,
      healthcheck_path: '/healthz',
      env: { PORT: String(port), GREETING: 'hello ünïcode "quoted" $HOME \\ \nsecond line' },
    });
    expect(app.status).toBe('stopped');

    const deployment = await town.deploy(app.id);
    expect(deployment.status).toBe('queued');
    expect((await town.application(app.id)).status).toBe('deploying');

    const seen: string[] = [];
    const statuses: string[] = [];
    let liveBeforeBuilt = false;
    for await (const frame of town.client.stream(
      `/ws/deployments/${deployment.id}/logs`,
      {},
      AbortSignal.timeout(120_000),
    )) {
      if (frame['type'] === 'log') {
        seen.push(String(frame['message']));
        liveBeforeBuilt ||= !statuses.includes('deploying');
      } else if (frame['type'] === 'status') statuses.push(String(frame['status']));
      else if (frame['type'] === 'end') break;
    }
    expect(seen.join('\n')).toContain('a line of the build');
    expect(liveBeforeBuilt).toBe(true);
    expect(statuses.filter((one) => one !== 'queued')).toEqual(['building', 'deploying', 'succeeded']);

    const ended = await town.deployment(deployment.id, 'succeeded');
    expect(ended).toMatchObject({ is_current: true, number: 1, trigger: 'manual', commit: repository.head });
    await town.until('the application is running', async () => (await town.application(app.id)).status === 'running');
    const answer = await fetch(`http://127.0.0.1:${port}/env/GREETING`);
    expect(await answer.text()).toBe('hello ünïcode "quoted" $HOME \\ \nsecond line');
    expect(await (await fetch(`http://127.0.0.1:${port}/env/REVISION`)).text()).toBe('one');
  });

  it('is rolled out, scaled, restarted, rolled back with its configuration, stopped and deleted without a trace', async () => {
    const port = await freePort();
    const app = await town.createApplication({
      source_type: 'image',
      image_url: image,
      exposed_port: port,
      healthcheck_path: '/healthz',
      memory_limit: '128m',
      cpu_limit: '0.5',
      env: { PORT: String(port), COLOUR: 'blue' },
    });
    const base = `/api/v1/applications/${app.id}`;
    const running = (): Promise<unknown> =>
      town.until(
        'it is settled and running',
        async () => {
          const one = await town.application(app.id);
          const busy = one.conditions?.some((it) => it.type === 'Reconciling' && it.status === 'true');
          return one.status === 'running' && busy !== true && one.observed_generation === one.generation
            ? one
            : undefined;
        },
        90_000,
      );
    const colour = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/env/COLOUR`)).text();

    const first = await town.deploy(app.id);
    await town.deployment(first.id, 'succeeded');
    await running();
    expect(await colour()).toBe('blue');
    const [container] = await instancesOf(app.id);
    const limits = JSON.parse(await docker('inspect', '--format', '{{json .HostConfig}}', container!)) as Record<
      string,
      number
    >;
    expect([limits['Memory'], limits['NanoCpus']]).toEqual([128 * 1024 * 1024, 500_000_000]);

    await town.client.request('PATCH', `${base}/env`, { COLOUR: 'green' });
    await running();
    expect(await colour()).toBe('green');

    await town.client.request('POST', `${base}/scale`, { replicas: 3 });
    await running();
    expect(await instancesOf(app.id)).toHaveLength(3);
    await town.client.request('POST', `${base}/scale`, { replicas: 1 });
    await running();
    await town.until('two instances are gone or stopped', async () => {
      const up = await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${app.id}`);
      return up.split('\n').length === 1;
    });

    const before = await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${app.id}`);
    await town.client.request('POST', `${base}/restart`, {});
    await town.until('another process answers', async () => {
      const now = await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${app.id}`);
      if (now === '' || now.includes('\n')) return false;
      return (
        now !== before ||
        (await docker('inspect', '--format', '{{.State.StartedAt}}', now)) > new Date().toISOString().slice(0, 10)
      );
    });
    await running();

    const back = await town.client.object('POST', `${base}/rollback`, {});
    await town.until('it serves the earlier configuration', async () => (await colour()) === 'blue', 60_000);
    await running();
    expect(JSON.stringify(back)).toContain(app.id);

    await town.client.request('POST', `${base}/stop`, {});
    await town.until('it is stopped', async () => (await town.application(app.id)).status === 'stopped');
    expect(await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${app.id}`)).toBe('');
    await town.client.request('POST', `${base}/start`, {});
    await running();

    await town.client.request('DELETE', base);
    await town.until('it is gone', async () => {
      const all = await town.client.list('/api/v1/applications');
      return !all.some((one) => one.id === app.id);
    });
    expect(await instancesOf(app.id)).toEqual([]);
  });
}
