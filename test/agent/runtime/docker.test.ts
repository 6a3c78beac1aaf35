import { createServer, type Server } from 'node:net';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { prober, type ProbeResult } from '../../../agent/runtime/probe.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import { labels, type ContainerRuntime } from '../../../agent/runtime/runtime.ts';
import { engineCall, engineSocket, testBuilds, testDocker, type TestDocker } from '../../harness/docker.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { ensureTestImages, type TestImages } from '../../harness/test-image.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);

describe('containers on Docker', () => {
  let docker: TestDocker;
  let images: TestImages;

  beforeAll(async () => {
    images = await ensureTestImages();
    docker = await testDocker();
  });
  afterAll(async () => {
    await docker[Symbol.asyncDispose]();
  });

  test('SEC-22 SEC-26 are bounded and hold no right that they were not given', async () => {
    const spec = docker.spec({
      image: images.shell,
      memoryBytes: 64 * 1024 * 1024,
      nanoCpus: 250_000_000,
      stopSeconds: 42,
    });
    const id = await docker.runtime.create(spec, signal());
    expect(await engineCall('GET', `/containers/${id}/json`)).toMatchObject({
      Config: { StopTimeout: 42 },
      HostConfig: {
        Memory: spec.memoryBytes,
        MemorySwap: spec.memoryBytes,
        NanoCpus: spec.nanoCpus,
        PidsLimit: defaultContainerLimits.pids,
        SecurityOpt: ['no-new-privileges:true'],
        CapDrop: ['NET_RAW', 'MKNOD'],
        CapAdd: null,
        Privileged: false,
        Binds: null,
        PublishAllPorts: false,
        NetworkMode: expect.not.stringMatching(/^(host|none|default|container:.*)$/),
        LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
      },
    });
  });

  test('SEC-26 without a limit of their own get one by default, and are the first to go where memory is short', async () => {
    using limited = dockerRuntime({
      socketPath: engineSocket,
      clock: systemClock,
      containers: { ...defaultContainerLimits, memoryBytes: 96 * 1024 * 1024, nanoCpus: 900_000_000 },
      builds: testBuilds,
    });
    const made = async (changes: { memoryBytes?: number; nanoCpus?: number }): Promise<unknown> => {
      const id = await limited.create(docker.spec({ image: images.shell, ...changes }), signal());
      return engineCall('GET', `/containers/${id}/json`);
    };
    expect(await made({})).toMatchObject({
      HostConfig: { Memory: 100_663_296, MemorySwap: 100_663_296, NanoCpus: 900_000_000, OomScoreAdj: 500 },
      Config: { Labels: { [labels.defaults]: '100663296 900000000' } },
    });
    expect(await made({ memoryBytes: 200_000_000 })).toMatchObject({
      HostConfig: { Memory: 200_000_000, NanoCpus: 900_000_000 },
      Config: { Labels: { [labels.defaults]: '0 900000000' } },
    });
    expect(await made({ memoryBytes: 200_000_000, nanoCpus: 100_000_000 })).toMatchObject({
      Config: { Labels: expect.not.objectContaining({ [labels.defaults]: expect.anything() }) },
    });
  });

  test('find each other by alias and answer probes', async () => {
    const server = await docker.runtime.create(
      docker.spec({ image: images.http, networks: [{ name: docker.network, aliases: ['shop'] }] }),
      signal(),
    );
    await docker.runtime.start(server, signal());
    const address = (await docker.runtime.inspect(server, signal()))!.addresses[docker.network]!;
    const network = prober({ clock: systemClock, runtime: docker.runtime });
    const probe = (path: string): Promise<ProbeResult> =>
      network.probe({ type: 'http', address, port: 8080, path, timeoutMs: 5_000 }, signal());
    await until('the service answers', async () => (await probe('/healthz')).ok);
    await probe('/health/500');
    expect(await probe('/healthz')).toEqual({ ok: false, reason: 'GET /healthz answered 500' });
    await probe('/health/302');
    expect(await probe('/healthz')).toEqual({ ok: true });
    const asking = `fetch('http://shop:8080/').then((r) => process.exit(r.status === 200 ? 0 : 1), () => process.exit(2))`;
    const command = ['/bin/node', '-e', asking];
    const client = await docker.runtime.create(docker.spec({ image: images.http, command }), signal());
    await docker.runtime.start(client, signal());
    const ended = await until('the client ends', async () => {
      const it = await docker.runtime.inspect(client, signal());
      return it?.state === 'exited' && it;
    });
    expect(ended.exitCode).toBe(0);
  });

  test('that need more memory than they have are distinguished', async () => {
    // the engine tells of a kill only if it comes after its watch has begun, and is heard of before the end
    const script = 'sleep 1; dd if=/dev/zero of=/dev/null bs=512M count=1; code=$?; sleep 1; exit $code';
    const command = ['/bin/sh', '-c', script];
    const spec = docker.spec({ image: images.shell, command, memoryBytes: 16 * 1024 * 1024 });
    const id = await docker.runtime.create(spec, signal());
    await docker.runtime.start(id, signal());
    const ended = await until('the end', async () => {
      const it = await docker.runtime.inspect(id, signal());
      return it?.state === 'exited' && it;
    });
    expect(ended).toMatchObject({ oomKilled: true, exitCode: 137 });
  });

  test('have networks beyond the ranges that the engine gives out', { tags: [longTag], timeout: 120_000 }, async () => {
    const names = Array.from({ length: 34 }, (_, n) => `sp-${docker.server.slice(0, 8)}${n}`);
    const own = { [labels.server]: docker.server, 'setpoint.test': 'many' };
    for (const name of names) await docker.runtime.ensureNetwork(name, own, signal());
    expect((await docker.runtime.networks(own, signal())).toSorted()).toEqual(names.toSorted());
    const listed = (await engineCall('GET', '/networks')) as {
      Name: string;
      IPAM: { Config: { Subnet: string }[] };
    }[];
    const subnets = listed.filter(({ Name }) => names.includes(Name)).map(({ IPAM }) => IPAM.Config[0]!.Subnet);
    expect(new Set(subnets).size).toBe(names.length);
    expect(subnets.some((subnet) => subnet.startsWith('10.2'))).toBe(true);
    for (const name of names) await docker.runtime.removeNetwork(name, signal());
  });

  test('SEC-02 are addressed by nothing but their id or name', async () => {
    for (const id of ['../networks', 'a/../../version', 'x?force=1', '%2e%2e/version']) {
      expect(await docker.runtime.inspect(id, signal())).toBeUndefined();
    }
    await expect(docker.runtime.image('../containers', signal())).rejects.toMatchObject({ code: 'image_not_found' });
  });
});

describe('an engine that does not answer', () => {
  let folder: string;
  let server: Server;
  const open = (socketPath: string, clock = systemClock): ContainerRuntime & Disposable =>
    dockerRuntime({
      socketPath,
      clock,
      containers: defaultContainerLimits,
      builds: testBuilds,
    });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-test-'));
    server = createServer((socket) => void socket.resume());
    await new Promise<void>((resolve) => server.listen(join(folder, 'hangs.sock'), resolve));
  });
  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
    await rm(folder, { recursive: true });
  });

  test('is unavailable where it is not there', async () => {
    using runtime = open(join(folder, 'absent.sock'));
    await expect(runtime.list('a', signal())).rejects.toMatchObject({
      code: 'runtime_unavailable',
      retryable: true,
      message: `The container engine does not answer at ${join(folder, 'absent.sock')}`,
    });
  });

  test('is unavailable after the deadline where it hangs', async () => {
    const clock = new FakeClock();
    using runtime = open(join(folder, 'hangs.sock'), clock);
    const listing = expect(runtime.list('a', signal())).rejects.toMatchObject({
      code: 'runtime_unavailable',
      message: 'The container engine did not answer within 30 s',
    });
    await settle();
    await clock.advance(30_000);
    await listing;
  });

  test('is heard again when it is back', async () => {
    const socketPath = join(folder, 'back.sock');
    using runtime = open(socketPath);
    await expect(runtime.version(signal())).rejects.toMatchObject({ code: 'runtime_unavailable' });
    await symlink(engineSocket, socketPath);
    expect(await runtime.version(signal())).toMatch(/^\d/);
  });
});
