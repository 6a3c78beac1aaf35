import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { startGitServer } from '../harness/git-server.ts';
import type { GitFiles, GitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** A compose file in a repository on a real engine: one service is built of it, one is given its files. */
describe('an application of a compose file in a repository', { tags: [longTag] }, () => {
  let town: Installation;
  let git: GitServer;
  let repository: Awaited<ReturnType<GitServer['repository']>>;
  let image: string;
  let port: number;
  let app: string;
  let base: string;

  const file = (): string => `
services:
  web:
    build: {context: ../web, args: {WORD: "\${WORD}"}, target: served}
    restart: always
    ports: ['${port}:8080']
    healthcheck: {test: [CMD, /bin/node, -e, "fetch('http://127.0.0.1:8080/healthz').then((it) => process.exit(it.ok ? 0 : 1), () => process.exit(1))"], interval: 1s}
    depends_on: {store: {condition: service_started}, prepare: {condition: service_completed_successfully}}
  prepare:
    image: ${image}
    command: [/bin/sh, -c, exit 0]
  store:
    image: ${image}
    restart: always
    env_file: [../store/store.env]
    volumes: ['../store/note.txt:/etc/note.txt:ro', 'data:/data']
volumes: {data: }
`;
  const files = (revision: string, web = revision): GitFiles => ({
    'deploy/compose.yaml': file(),
    'web/Dockerfile': `FROM ${image} AS served\nARG WORD\nENV WORD=$WORD REVISION=${web}\nFROM served\nENV REVISION=other\n`,
    'store/store.env': `# variables\nSHADE="dark \${COLOUR}"\n`,
    'store/note.txt': `note of ${revision}\n`,
  });

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    git = await startGitServer();
    port = await freePort();
    repository = await git.repository(files('one'));
    town = await Installation.start({ store: 'sqlite' });
    const made = await town.createApplication({
      source_type: 'compose',
      repository_url: repository.url,
      branch: 'main',
      compose_path: 'deploy/compose.yaml',
      env: { WORD: 'hello', COLOUR: 'red' },
      min_healthy_seconds: 1,
      drain_seconds: 2,
    });
    app = made.id;
    base = `/api/v1/applications/${app}`;
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await git[Symbol.asyncDispose]();
  });

  const variable = async (name: string): Promise<string> =>
    (
      await fetch(`http://127.0.0.1:${port}/env/${name}`, { headers: { connection: 'close' } }).catch(() => undefined)
    )?.text() ?? '';
  const containerOf = async (service: string): Promise<string> =>
    ((await town.client.list(`${base}/instances`, { service })) as unknown as { container_id: string }[])[0]!
      .container_id;
  const inStore = async (command: string): Promise<string> =>
    docker('exec', await containerOf('store'), '/bin/sh', '-c', command);
  const buildLog = async (id: string): Promise<string> =>
    (
      (await town.client.request('GET', `/api/v1/deployments/${id}/build-logs?tail=1000`)) as {
        lines: { message: string }[];
      }
    ).lines
      .map(({ message }) => message)
      .join('\n');
  let first: string;

  it('builds one service at the commit, and gives another one variables and a file of it', async () => {
    first = (await town.deploy(app)).id;
    expect(await town.deployment(first, 'succeeded')).toMatchObject({ commit: repository.head, branch: 'main' });
    expect([await variable('REVISION'), await variable('WORD')]).toEqual(['one', 'hello']);
    expect(await inStore('echo $SHADE; cat /etc/note.txt')).toBe('dark red\nnote of one');
    const log = await buildLog(first);
    for (const line of [
      `Checked out ${repository.head}`,
      'deploy/compose.yaml: Requests are for web',
      'Built setpoint/',
    ])
      expect(log).toContain(line);
  });

  it('is deployed again at the commit that was pushed, and changes a variable without a build', async () => {
    const head = await repository.commit(files('two'));
    const { id } = await town.deploy(app);
    expect(await town.deployment(id, 'succeeded')).toMatchObject({ commit: head });
    expect(await variable('REVISION')).toBe('two');
    expect(await inStore('cat /etc/note.txt')).toBe('note of two');
    await repository.commit(files('three'));
    await town.client.request('PATCH', `${base}/env`, { COLOUR: 'blue' });
    await town.until('the new value is there', async () => (await inStore('echo $SHADE')) === 'dark blue', 60_000);
    const [changed] = await town.client.list(`${base}/deployments`);
    expect(await town.deployment(String(changed!.id), 'succeeded')).toMatchObject({ commit: head, trigger: 'config' });
    expect(await variable('REVISION')).toBe('two');
  });

  it('builds the service that a push changed, and leaves the other one with its container and its volume', async () => {
    await inStore('echo kept > /data/note');
    const before = await containerOf('store');
    await repository.commit(files('two', 'three'));
    const { id } = await town.deploy(app);
    await town.deployment(id, 'succeeded');
    expect(await variable('REVISION')).toBe('three');
    expect(await containerOf('store')).toBe(before);
    expect(await inStore('cat /data/note')).toBe('kept');
    expect(await town.client.list(`${base}/instances`, { service: 'prepare' })).toMatchObject([
      { status: 'succeeded' },
    ]);
    const back = await town.client.object('POST', `${base}/rollback`, {});
    await town.deployment(back.id, 'succeeded');
    expect(await variable('REVISION')).toBe('two');
  });

  it('names what is refused in a push, with its place, and the deployment before serves on', async () => {
    await repository.commit({
      ...files('three'),
      'deploy/compose.yaml': file().replace('restart:', 'privileged: true\n    restart:'),
    });
    const { id } = await town.deploy(app);
    const failed = await town.deployment(id, 'failed');
    expect(failed['error']).toMatchObject({ code: 'compose_refused' });
    expect(JSON.stringify(failed['error'])).toMatch(/line 5, column \d+: services.web.privileged/);
    expect(await buildLog(id)).toContain('services.web.privileged');
    expect(await variable('REVISION')).toBe('two');
  });

  it('returns to an earlier deployment without a build', async () => {
    const { id } = await town.client.object('POST', `${base}/rollback`, { deployment_id: first });
    expect(await town.deployment(id, 'succeeded')).toMatchObject({ commit: repository.head });
    expect(await variable('REVISION')).toBe('one');
    expect(await inStore('echo $SHADE; cat /etc/note.txt')).toBe('dark red\nnote of one');
    expect(await buildLog(id)).not.toContain('Checked out');
  });

  it('is deleted without a trace', async () => {
    await town.client.request('DELETE', base);
    await town.until(
      'it is gone',
      async () => !(await town.client.list('/api/v1/applications')).some((it) => it.id === app),
      120_000,
    );
    expect(await instancesOf(app)).toEqual([]);
    for (const kind of ['volume', 'network'])
      await town.until(
        `its ${kind}s are gone`,
        async () => (await docker(kind, 'ls', '-q', '--filter', `label=${labels.server}=${town.server.id}`)) === '',
        60_000,
      );
    const ours = ['--filter', `label=${labels.workload}=${app}`];
    await town.until(
      'its images are gone',
      async () => (await docker('image', 'ls', '-q', ...ours)).trim() === '',
      120_000,
    );
  });
});
