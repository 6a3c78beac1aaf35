import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import type { ApiObject } from '../../cli/client.ts';
import { updateAgent } from '../../cli/verbs/update-agent.ts';
import { builtRelease, laterRelease, ownPlatform, testReleaseKey } from '../harness/built-release.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort, Program } from '../harness/program.ts';
import { smallRelease } from '../harness/small-release.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** The tests tell one story: each begins where the one before ended. */
const supervise = new URL('../../manifests/install/agent/supervise.sh', import.meta.url);
const first = packageFile.version;
const later = '7.0.0';
const broken = '7.0.1';

let folder: string;
let home: string;
let served: string;
let town: Installation;
let app: ApiObject;
let port: number;
/** Id and start of the container, which is to go on. */
let container: string;

beforeAll(async () => {
  const { http: image } = await ensureTestImages();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-agent-update-'));
  [home, served] = [join(folder, 'home'), join(folder, 'served')];
  const { executable } = await builtRelease();
  await mkdir(served);
  await mkdir(join(home, 'versions', first), { recursive: true });
  await copyFile(executable, join(home, 'versions', first, 'setpoint-agent'));
  await writeFile(join(home, 'current'), `${first}\n`);
  const text = await readFile(supervise, 'utf8');
  const quick = text.replace('trial_seconds=60', 'trial_seconds=25');
  expect(quick).not.toBe(text);
  await writeFile(join(home, 'supervise'), quick);
  await chmod(join(home, 'supervise'), 0o755);

  // the agent joins as such, and then runs as an installation does
  town = await Installation.start({
    store: 'sqlite',
    agentExecutable: executable,
    serverFlags: ['--agent-release', served],
  });
  await town.agent.kill('SIGTERM');
  town.agent = new Program([], join(town.dir, 'supervisor.log'), {
    SETPOINT_SERVER: `${town.url()}/default`,
    SETPOINT_DATA: join(town.dir, 'agent'),
    SETPOINT_LOCAL_IMAGES: 'setpoint-test/*',
  });
  town.agent.command = join(home, 'supervise');
  town.agent.start();
  port = await freePort();
  app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port) },
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', 120_000);
  container = await instance();
}, 180_000);
afterAll(async () => {
  await town.agent.kill('SIGTERM'); // a supervisor that is killed leaves its agent behind
  await town[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function instance(): Promise<string> {
  const [id = ''] = await instancesOf(app.id);
  return docker('inspect', '--format', '{{.Id}} {{.State.StartedAt}} {{.State.Running}}', id);
}

/** Lets the control plane serve the release of that folder, as a copy of `dist` does. */
async function serve(release: string): Promise<void> {
  const names = (await readdir(release)).filter((name) => name !== 'manifest.json');
  for (const name of names) await copyFile(join(release, name), join(served, name));
  await copyFile(join(release, 'manifest.json'), join(served, 'manifest.json.new'));
  await rename(join(served, 'manifest.json.new'), join(served, 'manifest.json'));
}

const server = (): Promise<ApiObject> => town.client.object('GET', `/api/v1/servers/${town.server.id}`);
const condition = (it: ApiObject, type: string) => it.conditions?.find((one) => one.type === type);
const line = async (name: string): Promise<string> => (await readFile(join(home, name), 'utf8').catch(() => '')).trim();

it('an agent updates itself to a later release, and its containers go on', async () => {
  await serve((await laterRelease(later)).folder);
  await updateAgent(town.client, 'one', {}, AbortSignal.timeout(150_000));
  expect(await server()).toMatchObject({ agent_version: later, agent_status: 'connected', status: 'active' });
  expect([await line('current'), await line('previous')]).toEqual([later, first]);
  await town.until('the trial is over', async () => (await line('trial')) === '');
  await town.until('it is shown', async () => condition(await server(), 'AgentUpdated')?.status === 'true');
  expect(await instance()).toBe(container);
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  // the agent leads it again
  await town.until('the application is running', async () => (await town.application(app.id)).status === 'running');
  // the version before can be gone back to by hand, and there is nothing to do for a second request
  expect((await readdir(join(home, 'versions'))).toSorted()).toEqual([first, later].toSorted());
  expect(await town.client.request('POST', `/api/v1/servers/${town.server.id}/update-agent`, {})).toMatchObject({
    status: 'current',
  });
});

it(
  'an agent goes back from a release that never connects, says so, and does not try it again by itself',
  { tags: [longTag] },
  async () => {
    const hangs = `#!/bin/sh\n[ "$1" != --version ] || { echo ${broken}; exit; }\nexec sleep 1000\n`;
    const { key } = await testReleaseKey();
    await using release = await smallRelease(broken, { [ownPlatform]: hangs }, key);
    const before = await line('current'); // the later one, where it has updated itself before
    await serve(release.folder);
    const failed = updateAgent(town.client, 'one', {}, AbortSignal.timeout(150_000));
    await expect(failed).rejects.toThrow(`was not updated to version ${broken}`);
    const it = await server();
    expect(condition(it, 'AgentUpdateFailed')).toMatchObject({ status: 'true', reason: 'VersionFailed' });
    expect(it).toMatchObject({ agent_version: before, agent_status: 'connected', desired_agent_version: broken });
    expect([await line('current'), await line('failed'), await line('trial')]).toEqual([before, broken, '']);
    expect(await instance()).toBe(container);
    const notifications = await town.client.list('/api/v1/notifications');
    expect(notifications.filter((one) => one['kind'] === 'server_update_failed')).toHaveLength(1);

    // the agent starts again, and knows that it failed
    const starts = async (): Promise<number> => (await town.agent.log()).split('"Agent started"').length;
    const started = await starts();
    await town.agent.kill('SIGTERM');
    town.agent.start();
    await town.until('the agent has started and is connected', async () => {
      return (await starts()) > started && (await server())['agent_status'] === 'connected';
    });
    expect(await line('current')).toBe(before);
    expect(condition(await server(), 'AgentUpdateFailed')?.status).toBe('true');
    expect(await instance()).toBe(container);
  },
);

it(
  'a server that is deleted while its agent tries a release that never connects takes the agent with it',
  { tags: 'long' },
  async () => {
    const unlucky = '7.0.2';
    const hangs = `#!/bin/sh\n[ "$1" != --version ] || { echo ${unlucky}; exit; }\nexec sleep 1000\n`;
    const { key } = await testReleaseKey();
    await using release = await smallRelease(unlucky, { [ownPlatform]: hangs }, key);
    await serve(release.folder);
    const path = `/api/v1/servers/${town.server.id}`;
    expect(await town.client.request('POST', `${path}/update-agent`, {})).toMatchObject({ status: 'updating' });
    await town.until('the release is tried', async () => (await line('trial')) === unlucky);
    await town.until('the agent is away', async () => (await server())['agent_status'] !== 'connected');
    await town.client.request('DELETE', `${path}?force=true`);
    const again = town.client.request('POST', `${path}/update-agent`, {});
    await expect(again).rejects.toThrow('Server is being deleted');
    await town.until('it is waited for', async () => {
      const message = condition(await server(), 'Ready')?.message;
      return message?.includes('it tries another release') === true;
    });
    await town.until('the agent is gone', async () => !(await readdir(folder)).includes('home'), 90_000);
    await expect(server()).rejects.toThrow();
    expect(await instancesOf(app.id)).toEqual([]);
    expect(await readdir(town.dir)).not.toContain('agent');
    const kinds = (await town.client.list('/api/v1/notifications')).map((one) => one['kind']);
    expect(kinds).not.toContain('server_agent_left');
  },
);
