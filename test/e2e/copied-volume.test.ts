import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { chmod, chown, link, lstat, mkdir, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { folderCopier } from '../../agent/engine/volume-copier.ts';
import { ownerVariable } from '../../agent/machine/orphans.ts';
import { processes } from '../../agent/runtime/sessions.ts';
import { VolumeCopies } from '../../agent/volumes/volume-copies.ts';
import { openStore } from '../../store/open.ts';
import { openRepository } from '../../store/repo.ts';
import { commit } from '../../store/unit.ts';
import { systemClock } from '../../time/clock.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { smallEngine } from '../harness/small-engine.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const tag = randomUUID().slice(0, 8);
const MiB = 1024 ** 2;
const [theirs, big] = [`rows-${tag}`, `big-${tag}`];
const writer = `writer-${tag}`;

/** All of a folder: of each name its kind, mode, owner, links, size and content. */
async function everythingIn(folder: string, below = ''): Promise<string[]> {
  const found: string[] = [];
  for (const name of (await readdir(join(folder, below))).toSorted()) {
    const path = join(below, name);
    const { mode, uid, gid, nlink, size, mtimeMs } = await lstat(join(folder, path));
    const [isFile, isFolder] = [(mode & 0o170000) === 0o100000, (mode & 0o170000) === 0o040000];
    const hash = isFile
      ? createHash('sha256')
          .update(await readFile(join(folder, path)))
          .digest('hex')
      : '';
    found.push([path, mode.toString(8), uid, gid, nlink, isFolder ? '' : size, mtimeMs, hash].join(' '));
    if (isFolder) found.push(...(await everythingIn(folder, path)));
  }
  return found;
}

const folderOf = (volume: string) => docker('volume', 'inspect', '--format', '{{.Mountpoint}}', volume);

/** A volume of Docker, with 768 MiB in 300 files: its copy takes some moments. */
async function fillBig(): Promise<void> {
  await docker('volume', 'create', big);
  const folder = await folderOf(big);
  const part = randomBytes(Math.round(2.56 * MiB));
  for (let n = 0; n < 300; n++) await writeFile(join(folder, `part-${n}`), part);
}

describe('a volume that begins as a copy of one of Docker', () => {
  let town: Installation;
  let http: string;
  let shell: string;

  beforeAll(async () => {
    ({ http, shell } = await ensureTestImages());
    town = await Installation.start({ store: 'etcd' });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await docker('rm', '--force', writer).catch(() => undefined);
    for (const volume of [theirs, big]) await docker('volume', 'rm', volume).catch(() => undefined);
  });

  /** What only the control plane itself may ask for. */
  async function copyOf(dockerVolume: string, containers: string[] = []): Promise<string> {
    if (town.etcd === undefined) throw new Error('The store is not etcd');
    await using store = await openStore(`etcd://${town.etcd.host}`);
    const unit = openRepository(store, 'default', systemClock).begin();
    const id = randomUUID();
    unit.create('volume', id, {
      project_id: town.project.id,
      environment_id: town.environment.id,
      server_id: town.server.id,
      name: `copy-${id.slice(0, 8)}`,
      copy_from: { docker_volume: dockerVolume, containers },
    });
    await commit(unit);
    return id;
  }

  const conditionOf = async (path: string) => {
    const { conditions } = await town.client.object('GET', `/api/v1/${path}`);
    return conditions?.find(({ type }) => type === 'Ready');
  };
  const hasStatus = (volume: string, status: string) =>
    town.until(
      `the volume is ${status}`,
      async () => (await town.client.object('GET', `/api/v1/volumes/${volume}`)).status === status,
      120_000,
    );
  const agentData = () => join(town.dir, 'agent');
  /** The `cp` of the agent. */
  const copying = () =>
    processes(async ({ id, environment }) => {
      if ((await readFile(`/proc/${id}/comm`, 'utf8')).trim() !== 'cp') return false;
      return (await environment()).includes(`${ownerVariable}=${agentData()}`);
    });
  const isCopying = () => until('it is being copied', async () => (await copying()).length > 0, { everyMs: 5 });

  it('waits for the container that writes to it, and the application with it, and has all of it then', async () => {
    await docker('volume', 'create', theirs);
    const folder = await folderOf(theirs);
    await mkdir(join(folder, 'base'));
    await writeFile(join(folder, 'base', 'table'), 'rows');
    await chown(join(folder, 'base', 'table'), 999, 998);
    await chmod(join(folder, 'base', 'table'), 0o640);
    await link(join(folder, 'base', 'table'), join(folder, 'hard'));
    await symlink('base/table', join(folder, 'symbolic'));
    await using sparse = await open(join(folder, 'sparse'), 'w');
    await sparse.write('end', 128 * MiB);
    const script = 'trap exit TERM; while :; do echo more >> /data/log; sleep 0.1; done';
    await docker('run', '--detach', '--name', writer, '--volume', `${theirs}:/data`, shell, '/bin/sh', '-c', script);

    const volume = await copyOf(theirs, [writer]);
    const port = await freePort();
    const env = { PORT: String(port) };
    const web = { source_type: 'image', image_url: http, exposed_port: port, healthcheck_path: '/healthz', env };
    const app = (await town.createApplication({ ...brief, ...web })).id;
    const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${volume}/bind`, binding);
    const { id: deployment } = await town.deploy(app);
    await town.until('it waits', async () => (await conditionOf(`volumes/${volume}`))?.reason === 'CopyWaits');
    const stop = `Stop ${writer}: docker update --restart no ${writer} && docker stop ${writer}`;
    expect((await conditionOf(`volumes/${volume}`))?.message).toContain(stop);
    await town.until('so does the deployment', async () => {
      const ready = await conditionOf(`deployments/${deployment}`);
      return ready?.reason === 'WaitingForVolume' && ready.message.includes(stop);
    });
    expect(await instancesOf(app)).toEqual([]);
    expect(await docker('volume', 'ls', '--quiet')).not.toContain(volume);

    await docker('stop', '--time', '5', writer);
    await town.deployment(deployment, 'succeeded', 120_000);
    const before = await everythingIn(folder);
    const copy = await folderOf(`sp-vol-${volume}`);
    expect(await everythingIn(copy)).toEqual(before);
    expect(before.some((line) => line.startsWith('log '))).toBe(true);
    expect((await lstat(join(copy, 'sparse'))).blocks * 512).toBeLessThan(MiB);
    expect((await lstat(join(copy, 'hard'))).ino).toBe((await lstat(join(copy, 'base/table'))).ino);
    const [instance = ''] = await instancesOf(app);
    expect(await docker('exec', '--user', '999:998', instance, '/bin/sh', '-c', 'cat /data/hard')).toBe('rows');

    await docker('exec', '--user', '0', instance, '/bin/sh', '-c', 'echo ours > /data/own');
    expect(await everythingIn(folder)).toEqual(before);
    const { id: next } = await town.deploy(app);
    await town.deployment(next, 'succeeded');
    expect(await readFile(join(copy, 'own'), 'utf8')).toBe('ours\n');
    expect(await docker('volume', 'ls', '--quiet')).not.toContain('-copy');
  });

  it(
    'is copied anew if the agent is killed in the middle, and is there only once it is whole',
    { tags: [longTag] },
    async () => {
      await fillBig();
      const volume = await copyOf(big);
      await isCopying();
      await town.agent.kill('SIGKILL');
      const left = (await docker('volume', 'ls', '--quiet')).split('\n');
      expect(left).toContain(`sp-vol-${volume}-copy`);
      expect(left).not.toContain(`sp-vol-${volume}`);
      town.agent.start();
      await hasStatus(volume, 'available');
      expect(await everythingIn(await folderOf(`sp-vol-${volume}`))).toEqual(await everythingIn(await folderOf(big)));
      expect(await docker('volume', 'ls', '--quiet')).not.toContain('-copy');
      expect(await copying()).toEqual([]);
      await town.client.request('DELETE', `/api/v1/volumes/${volume}?wait=60`);
    },
  );

  it('that is deleted while it is copied leaves nothing but its original', { tags: [longTag] }, async () => {
    const before = await everythingIn(await folderOf(big));
    const volume = await copyOf(big);
    await isCopying();
    await town.client.request('DELETE', `/api/v1/volumes/${volume}?wait=60`);
    expect(await copying()).toEqual([]);
    expect(await docker('volume', 'ls', '--quiet')).not.toContain(volume);
    expect(await everythingIn(await folderOf(big))).toEqual(before);
  });

  it('is refused where the original is a volume of Setpoint, or on another disk', async () => {
    const place = { project_id: town.project.id, server_id: town.server.id };
    const { id: own } = await town.client.object('POST', '/api/v1/volumes?wait=60', { ...place, name: 'own' });
    const ofSetpoint = await copyOf(`sp-vol-${own}`);
    const options = ['--opt', 'type=tmpfs', '--opt', 'device=tmpfs'];
    await docker('volume', 'create', ...options, `elsewhere-${tag}`);
    try {
      const elsewhere = await copyOf(`elsewhere-${tag}`);
      for (const [volume, why] of [
        [ofSetpoint, 'was made by Setpoint'],
        [elsewhere, 'has options of its driver'],
      ] as const) {
        await hasStatus(volume, 'error');
        const ready = await conditionOf(`volumes/${volume}`);
        expect([ready?.reason, ready?.message]).toEqual(['CopyRefused', expect.stringContaining(why)]);
        await town.client.request('DELETE', `/api/v1/volumes/${volume}?wait=60`);
      }
    } finally {
      await docker('volume', 'rm', `elsewhere-${tag}`);
    }
  });
});

describe('a disk without room for a copy', () => {
  const signal = (): AbortSignal => AbortSignal.timeout(60_000);

  it('is found before anything is copied, and there is a copy once there is room', { tags: [longTag] }, async () => {
    await using engine = await smallEngine(700 * MiB);
    const { runtime } = engine;
    const copies = new VolumeCopies({
      runtime,
      copier: folderCopier(runtime, `test-${tag}`, systemClock),
      clock: systemClock,
    });
    await runtime.ensureVolume('theirs', {}, signal());
    const path = (await runtime.volume('theirs', signal()))?.path ?? '';
    await writeFile(join(path, 'much'), Buffer.alloc(120 * MiB, 'x'));
    await writeFile(join(path, 'rows'), 'rows');
    const make = () => {
      const until = { signal: signal(), closing: signal() };
      const copy = { volume: 'sp-vol-1', from: 'theirs', labels: { 'setpoint.server': 'one' } };
      return copies.make(copy, () => undefined, until);
    };
    await expect(make()).rejects.toMatchObject({
      code: 'no_space',
      message: expect.stringMatching(/has 0\.1 GiB, and of the 0\.\d GiB that are free .* 0\.5 GiB must stay free/),
    });
    expect((await runtime.volumes({}, signal())).map(({ name }) => name)).toEqual(['theirs']);
    await rm(join(path, 'much'));
    await make();
    expect((await runtime.volumes({}, signal())).map(({ name }) => name)).toEqual(['sp-vol-1', 'theirs']);
    const made = (await runtime.volume('sp-vol-1', signal()))?.path ?? '';
    expect(await readFile(join(made, 'rows'), 'utf8')).toBe('rows');
  });
});
