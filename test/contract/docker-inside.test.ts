import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { prober } from '../../agent/runtime/probe.ts';
import { Capability } from '../../agent-protocol/workload.ts';
import { labels, type ContainerSpec, type NetworkPlace } from '../../agent/runtime/runtime.ts';
import { engineCall, testDocker, type TestDocker } from '../harness/docker.ts';
import { ensureRichImage, ensureTestImages, type TestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const MiB = 1024 * 1024;

/** Numbers of the kernel. */
const bits: Readonly<Record<Capability, number>> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  SETPCAP: 8,
  NET_BIND_SERVICE: 10,
  SYS_CHROOT: 18,
  AUDIT_WRITE: 29,
  SETFCAP: 31,
};

describe('what a container on Docker has inside', () => {
  let docker: TestDocker;
  let images: TestImages;
  let folder: string;

  beforeAll(async () => {
    images = await ensureTestImages();
    docker = await testDocker();
    folder = await mkdtemp(join(tmpdir(), 'setpoint-inside-'));
  });
  afterAll(async () => {
    await docker[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  async function start(changes: Partial<ContainerSpec>): Promise<string> {
    const id = await docker.runtime.create(docker.spec({ image: images.shell, ...changes }), signal());
    await docker.runtime.start(id, signal());
    return id;
  }

  /** Standard output of a program that succeeds. */
  async function shell(id: string, script: string): Promise<string> {
    const run = await docker.runtime.run(id, ['/bin/sh', '-c', script], { timeoutMs: 20_000 }, signal());
    expect(run, script).toMatchObject({ exitCode: 0 });
    return run.output.trim();
  }

  /** Its value in the kernel's status of the main process. */
  async function status(id: string, field: string): Promise<string> {
    const line = (await shell(id, 'cat /proc/1/status')).split('\n').find((it) => it.startsWith(`${field}:`));
    return line?.split(':')[1]?.trim() ?? '';
  }

  async function rights(id: string): Promise<string[]> {
    const set = BigInt(`0x${await status(id, 'CapBnd')}`);
    const names = Object.entries(bits).filter(([, bit]) => (set >> BigInt(bit)) & 1n);
    const known = names.reduce((sum, [, bit]) => sum | (1n << BigInt(bit)), 0n);
    expect(set, 'no right beside the known ones').toBe(known);
    return names.map(([name]) => name).toSorted();
  }

  test('SEC-22 is what its spec says: user, limits, mounts, a root that cannot be written', async () => {
    const source = join(folder, 'secret');
    await writeFile(source, 'hidden', { mode: 0o440 });
    const id = await start({
      user: '1000:1001',
      readOnlyRoot: true,
      processes: 77,
      oomScoreAdj: 300,
      shmBytes: 8 * MiB,
      ulimits: { nofile: { soft: 512, hard: 1024 } },
      mounts: [
        { type: 'tmpfs', path: '/scratch', sizeBytes: MiB, mode: 0o1777 },
        { type: 'file', source, path: '/etc/secret' },
      ],
    });
    expect(await status(id, 'Uid')).toMatch(/^1000\t/);
    expect(await status(id, 'Gid')).toMatch(/^1001\t/);
    expect(await status(id, 'NoNewPrivs')).toBe('1');
    expect(await shell(id, 'cat /proc/1/oom_score_adj')).toBe('300');
    expect(await shell(id, 'cat /proc/1/limits')).toMatch(/^Max open files +512 +1024 /m);
    const limit = 'cat /sys/fs/cgroup/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids/pids.max';
    expect(await shell(id, limit)).toBe('77');
    const mounts = (await shell(id, 'cat /proc/mounts')).split('\n').map((line) => line.split(' '));
    const options = (path: string): string => mounts.findLast((it) => it[1] === path)?.[3] ?? '';
    expect(options('/')).toMatch(/^ro,/);
    expect(options('/dev/shm')).toContain('size=8192k');
    expect(options('/scratch')).toContain('size=1024k');
    expect(options('/etc/secret')).toMatch(/^ro,/);
    expect(await shell(id, 'ls -ld /scratch')).toMatch(/^drwxrwxrwt/);
    expect(await shell(id, 'ls -l /etc/secret')).toMatch(/^-r--r-----/);
    const filling = ['/bin/dd', 'if=/dev/zero', 'of=/scratch/file', 'bs=1M', 'count=2'];
    const { exitCode } = await docker.runtime.run(id, filling, { timeoutMs: 20_000 }, signal());
    expect(exitCode).toBe(1);
  });

  test('SEC-22 are no rights beside those of the closed list, whatever is asked for', async () => {
    const all = Capability.options.toSorted();
    const cases: [ContainerSpec['capabilities'], string[]][] = [
      [undefined, all],
      [{ drop: ['ALL'], add: [] }, []],
      [{ drop: ['ALL'], add: ['CHOWN', 'NET_BIND_SERVICE'] }, ['CHOWN', 'NET_BIND_SERVICE']],
      [{ drop: ['ALL'], add: [...Capability.options] }, all],
      [{ drop: ['KILL', 'SETFCAP'], add: ['CHOWN'] }, all.filter((it) => it !== 'KILL' && it !== 'SETFCAP')],
    ];
    for (const [changes, expected] of cases)
      expect(await rights(await start(changes === undefined ? {} : { capabilities: changes }))).toEqual(expected);
  });

  test('is told when a process is killed for memory, also when that is not the first one', async () => {
    const enough = new AbortController();
    const events = docker.runtime.events(docker.server, AbortSignal.any([enough.signal, signal()]));
    // the variable of the inner shell doubles until it has no room any more
    const greedy = 'x=0123456789; while :; do x=$x$x; done';
    const id = await start({
      memoryBytes: 16 * MiB,
      entrypoint: ['/bin/sh', '-c'],
      command: [`( ${greedy} ); while :; do sleep 600 & wait; done`],
    });
    for await (const event of events) if (event.containerId === id && event.action === 'oom') break;
    expect(await docker.runtime.inspect(id, signal())).toMatchObject({ state: 'running' });
    enough.abort(new Error('Enough'));
  });

  test('is where its programs listen, without the name server of the engine', async () => {
    const id = await start({});
    const { pid } = (await docker.runtime.inspect(id, signal()))!;
    expect(await docker.runtime.listeners({ id, pid }, signal())).toEqual([]);
  });

  test('is no health where a check is taken away by NONE', async () => {
    const { Id } = (await engineCall('POST', '/containers/create', {
      Image: await ensureRichImage(),
      Cmd: ['/bin/sleep', '600'],
      Healthcheck: { Test: ['NONE'] },
      Labels: { [labels.server]: docker.server },
    })) as { Id: string };
    await docker.runtime.start(Id, signal());
    expect(await docker.runtime.inspect(Id, signal())).toMatchObject({ state: 'running' });
    expect(await docker.runtime.inspect(Id, signal())).not.toHaveProperty('health');
  });

  test('is an entrypoint in place of that of the image', async () => {
    const id = await start({ entrypoint: ['/bin/sh', '-c'], command: ['exec sleep 100'] });
    expect((await shell(id, 'cat /proc/1/comm')).trim()).toBe('sleep');
  });

  describe('networks', () => {
    const names = (): [string, string] => [`spb-${docker.server.slice(0, 8)}`, `spa-${docker.server.slice(0, 8)}`];
    const on = (...places: [NetworkPlace, ...NetworkPlace[]]): Pick<ContainerSpec, 'networks'> => ({
      networks: places,
    });

    beforeAll(async () => {
      for (const name of names())
        await docker.runtime.ensureNetwork(name, { [labels.server]: docker.server }, signal());
    });

    test('are all of its own, in each of which it is found by its names there', async () => {
      const [first, second] = names();
      const server = on({ name: first, aliases: ['one', 'shop'] }, { name: second, aliases: ['two'] });
      await start({ image: images.http, ...server });
      const ask = async (network: string, alias: string): Promise<number | undefined> => {
        const asking = `fetch('http://${alias}:8080/').then((r) => process.exit(r.status === 200 ? 0 : 1), () => process.exit(2))`;
        const client = await start({ ...on({ name: network, aliases: [] }), image: images.http });
        const command = ['/bin/node', '-e', asking];
        const answer = await until('an answer', async () => {
          const { exitCode } = await docker.runtime.run(client, command, { timeoutMs: 20_000 }, signal());
          return exitCode !== 1 && { exitCode };
        });
        return answer.exitCode;
      };
      await until('it listens', async () => (await ask(first, 'one')) === 0);
      expect(await ask(first, 'shop')).toBe(0);
      expect(await ask(second, 'two')).toBe(0);
      expect(await ask(second, 'one')).toBe(2);
      expect(await ask(first, 'two')).toBe(2);
    });

    test('that it lost before its start, as after a lost answer to its creation, are joined again', async () => {
      const [first, second] = names();
      const spec = on({ name: first, aliases: ['a'] }, { name: second, aliases: ['b'] });
      const id = await docker.runtime.create(docker.spec({ image: images.shell, ...spec }), signal());
      await engineCall('POST', `/networks/${second}/disconnect`, { Container: id, Force: true });
      expect((await docker.runtime.inspect(id, signal()))?.networks).toEqual([{ name: first, aliases: ['a'] }]);
      await docker.runtime.start(id, signal());
      const { networks, addresses } = (await docker.runtime.inspect(id, signal()))!;
      expect(networks).toEqual([
        { name: second, aliases: ['b'] },
        { name: first, aliases: ['a'] },
      ]);
      expect(Object.keys(addresses).toSorted()).toEqual([second, first]);
    });

    test('lead out by the one whose name comes first, whatever the order of its spec', async () => {
      const [first, second] = names();
      const id = await start(on({ name: first, aliases: [] }, { name: second, aliases: [] }));
      const routes = (await shell(id, 'cat /proc/net/route')).split('\n').map((line) => line.split('\t'));
      const interfaceOut = routes.find((route) => route[1] === '00000000')?.[0];
      const onLink = routes.find((route) => route[0] === interfaceOut && route[2] === '00000000');
      const { addresses } = (await docker.runtime.inspect(id, signal()))!;
      const octets = [...Buffer.from(onLink?.[1] ?? '', 'hex')].toReversed().slice(0, 2).join('.');
      expect(addresses[second]!.startsWith(`${octets}.`), JSON.stringify({ addresses, octets })).toBe(true);
    });
  });

  test('is reported by probes of all kinds', { tags: [longTag] }, async () => {
    const asking = prober({ clock: systemClock, runtime: docker.runtime });
    const container = await start({ image: await ensureRichImage(), command: ['/bin/sleep', '600'] });
    const command = (...argv: string[]) => ({ type: 'command', container, command: argv, timeoutMs: 20_000 }) as const;
    const image = { type: 'image', container, timeoutMs: 20_000 } as const;
    expect(await asking.probe(command('/bin/true'), signal())).toEqual({ ok: true });
    const failed = await asking.probe(command('/bin/cat', '/tmp/healthy'), signal());
    expect(failed).toEqual({ ok: false, reason: '/bin/cat ended with code 1' });
    const missing = await asking.probe(command('/bin/missing'), signal());
    expect(missing).toMatchObject({
      ok: false,
      reason: expect.stringMatching(/^\/bin\/missing ended with code 12[67]$/),
    });
    await until('the check fails', async () => {
      const result = await asking.probe(image, signal());
      return result.ok === false && result.reason === 'The health check of the image failed';
    });
    await shell(container, 'echo yes >/tmp/healthy');
    await until('the check passes', async () => (await asking.probe(image, signal())).ok);
    await engineCall('POST', `/containers/${container}/pause`);
    expect(await asking.probe(command('/bin/true'), signal())).toEqual({
      ok: false,
      reason: 'The container does not run',
    });
    await docker.runtime.unpause(container, signal());
  });

  test('is at most one program that hangs, however often it is asked', async () => {
    const id = await start({});
    const hanging = ['/bin/sleep', '321'];
    for (const _ of [1, 2, 3]) {
      const { exitCode } = await docker.runtime.run(id, hanging, { timeoutMs: 200 }, signal());
      expect(exitCode).toBeUndefined();
    }
    const { Processes } = (await engineCall('GET', `/containers/${id}/top`)) as { Processes: string[][] };
    expect(Processes.filter((it) => it.at(-1)?.includes('321'))).toHaveLength(1);
  });
});
