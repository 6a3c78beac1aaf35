import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { builtRelease } from '../harness/built-release.ts';
import { containersWith, docker } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

const execute = promisify(execFile);

let folder: string;
let town: Installation;
let image: string;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  folder = await mkdtemp(join(tmpdir(), 'setpoint-uninstall-'));
  const { executable } = await builtRelease();
  town = await Installation.start({
    store: 'sqlite',
    agentExecutable: executable,
    agentHome: join(folder, 'home'),
    agentData: join(folder, 'data'),
  });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** Rules of the packet filter that name a server, of both families. */
async function rulesOf(server: string): Promise<string[]> {
  const short = server.replaceAll('-', '').slice(0, 12);
  const saved = [await execute('iptables-save'), await execute('ip6tables-save')];
  return saved.flatMap(({ stdout }) => stdout.split('\n').filter((line) => line.includes(short)));
}

/** Command lines of the processes that name the folder. */
async function processesOf(path: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line.includes(path));
}

it(
  'a server that is deleted has nothing of its agent left, and all that is not its own',
  { tags: [longTag], timeout: 240_000 },
  async () => {
    const { id: server } = town.server;
    const label = ['--filter', `label=${labels.server}=${server}`];
    const port = await freePort();
    const volume = await town.client.object('POST', '/api/v1/volumes', {
      project_id: town.project.id,
      server_id: server,
      name: 'data',
    });
    const app = await town.createApplication({
      ...brief,
      source_type: 'image',
      image_url: image,
      exposed_port: port,
      healthcheck_path: '/healthz',
      env: { PORT: String(port) },
    });
    await town.client.object('POST', `/api/v1/volumes/${volume.id}/bind`, {
      workload_type: 'application',
      workload_id: app.id,
      mount_path: '/data',
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 120_000);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    const [container = ''] = await containersWith(labels.server, server);
    await docker('exec', container, 'sh', '-c', 'echo kept >/data/note');
    expect(await rulesOf(server)).not.toEqual([]);
    const mountpoint = await docker('volume', 'inspect', `sp-vol-${volume.id}`, '--format', '{{.Mountpoint}}');

    await using foreign = new AsyncDisposableStack();
    const network = await docker('network', 'create', `mine-${server.slice(0, 8)}`);
    foreign.defer(async () => void (await docker('network', 'rm', network)));
    const other = await docker('run', '--detach', '--network', network, '--env', 'PORT=8080', image);
    foreign.defer(async () => void (await docker('rm', '--force', other)));

    await town.client.request('DELETE', `/api/v1/servers/${server}?force=true`);
    await town.until('the agent is gone', async () => !(await readdir(folder)).includes('home'), 90_000);
    await town.until('its processes are gone', async () => (await processesOf(folder)).length === 0);

    expect(await containersWith(labels.server, server)).toEqual([]);
    expect(await docker('network', 'ls', '--quiet', ...label)).toBe('');
    expect(await docker('images', '--quiet', ...label)).toBe('');
    expect(await rulesOf(server)).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
    await expect(town.client.object('GET', `/api/v1/servers/${server}`)).rejects.toThrow();
    const kinds = (await town.client.list('/api/v1/notifications')).map((it) => it['kind']);
    expect(kinds).not.toContain('server_agent_left');

    expect(await readFile(join(mountpoint, 'note'), 'utf8')).toBe('kept\n');
    expect(await docker('inspect', other, '--format', '{{.State.Running}}')).toBe('true');
    expect(await docker('image', 'inspect', image, '--format', '{{.Id}}')).not.toBe('');
  },
);
