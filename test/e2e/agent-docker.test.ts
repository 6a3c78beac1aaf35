import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WireAssignment, WireService } from '../../agent-protocol/assignment.ts';
import { systemClock } from '../../time/clock.ts';
import type { Agent } from '../../agent/agent.ts';
import { startAgent } from '../../agent/agent.ts';
import { containerName } from '../../agent/engine/ledger.ts';
import { folderArchiver } from '../../agent/engine/volume-archiver.ts';
import { folderCopier } from '../../agent/engine/volume-copier.ts';
import { engineTrouble } from '../../agent/engine/engine-trouble.ts';
import { MockPorts } from '../../agent/ports/mock-ports.ts';
import { noSteps } from '../../agent/ports/step-guard.ts';
import { dockerWords } from '../../agent/runtime/docker/trouble-words.ts';
import { prober } from '../../agent/runtime/probe.ts';
import type { Container } from '../../agent/runtime/runtime.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import type { TestDocker } from '../harness/docker.ts';
import { engineCall, testDocker } from '../harness/docker.ts';
import { docker as byCommand } from '../harness/engine.ts';
import type { TestImages } from '../harness/test-image.ts';
import { openImages } from '../harness/open-images.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { joinToken } from '../harness/join-token.ts';
import { probeTimes, wireService } from '../harness/wire-items.ts';
import { longTag } from '../layer-report.ts';

let docker: TestDocker;
let images: TestImages;
let dir: string;
let agent: Agent;
let revision = 0;
const ports = new MockPorts();

beforeAll(async () => {
  docker = await testDocker();
  images = await ensureTestImages();
  dir = await mkdtemp(join(tmpdir(), 'setpoint-agent-docker-'));
  await start();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await docker[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

async function start(): Promise<void> {
  agent = await startAgent({
    joinToken: joinToken(docker.server),
    dataDir: dir,
    engine: {
      runtime: docker.runtime,
      ports: ports.publisher(),
      hasRules: false,
      steps: noSteps,
      copier: folderCopier(docker.runtime, dir, systemClock),
      archiver: folderArchiver(docker.runtime, dir),
      prober: prober({ clock: systemClock, runtime: docker.runtime }),
      trouble: (error) => engineTrouble(dockerWords, error),
    },
    images: await openImages(docker.runtime, dir),
    build: () => Promise.reject(new Error('No build is expected')),
    gitHead: () => Promise.reject(new Error('No git is expected')),
    gitTag: () => Promise.reject(new Error('No git is expected')),
    dockerfiles: () => Promise.reject(new Error('No git is expected')),
    repositories: () => Promise.reject(new Error('No git is expected')),
    disk: () => Promise.resolve({ freeBytes: 1e12, totalBytes: 1e12 }),
    logBytes: 1e9,
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
  });
  agent.backend.trusts(true);
}

function service(spec: Parameters<typeof wireService>[0] = {}): WireAssignment & { spec: WireService } {
  const id = randomUUID();
  return {
    id,
    generation: 1,
    spec_hash: `hash-${id}`,
    tenant: 'default',
    project_id: randomUUID(),
    environment_id: randomUUID(),
    workload_kind: 'application',
    workload_id: randomUUID(),
    workload_name: 'web',
    service: 'main',
    run: 'running',
    spec: wireService({
      image: images.http,
      env: { GREETING: 'hello' },
      port: 8080,
      health: { path: '/healthz' },
      grace_seconds: 2,
      network: docker.network,
      alias: `web-${id.slice(0, 6)}`,
      ...spec,
    }),
  };
}

async function put(...items: WireAssignment[]): Promise<void> {
  revision += 1;
  await agent.backend.snapshot({ incarnation: 'one', revision }, items, [], []);
}

async function containerOf(item: WireAssignment): Promise<Container | undefined> {
  const all = await docker.runtime.list(docker.server, AbortSignal.timeout(10_000));
  return all.find((it) => it.labels[labels.assignment] === item.id);
}

async function isReady(item: WireAssignment, unlike?: string): Promise<Container> {
  return until(
    'ready',
    async () => {
      const report = agent.backend.report(item.id);
      const container = await containerOf(item);
      // what is told of one container says nothing of the next
      const isOfIt = report?.container_id === container?.id && container?.id !== unlike;
      return report?.ready === true && container?.state === 'running' && isOfIt ? container : undefined;
    },
    { everyMs: 20, explain: async () => JSON.stringify([agent.backend.report(item.id), await containerOf(item)]) },
  );
}

/** A program in the container of an instance. */
async function inside(container: Container, ...command: string[]): Promise<string> {
  const { exitCode, output } = await docker.runtime.run(
    container.id,
    command,
    { timeoutMs: 10_000 },
    AbortSignal.timeout(20_000),
  );
  return `${exitCode} ${output.trim()}`;
}

describe('an agent on a real engine', { tags: [longTag] }, () => {
  test('runs a service with all that can be asked of it', async () => {
    const second = `${docker.network}-2`;
    const script = `trap 'echo ended as asked; exit 0' INT; while true; do sleep 0.1; done`;
    const item = service({
      image: images.shell,
      entrypoint: ['/bin/sh', '-c'],
      command: [script],
      probe: { ...probeTimes, type: 'command', command: ['/bin/cat', '/etc/app/token'] },
      networks: [
        { name: docker.network, aliases: ['one'] },
        { name: second, aliases: ['two'] },
      ],
      mounts: [{ type: 'tmpfs', path: '/scratch', size_bytes: 1024 * 1024, mode: 0o1777 }],
      files: [
        { path: '/etc/app/token', mode: 0o400, uid: 1234, gid: 0 },
        { path: '/etc/app/motd', mode: 0o444, uid: 0, gid: 0 },
      ],
      configuration: {
        env: {},
        files: {
          '/etc/app/token': Buffer.from('correct horse').toString('base64'),
          '/etc/app/motd': Buffer.from([0, 255, 10]).toString('base64'),
        },
      },
      limits: { processes: 40, shm_bytes: 1024 * 1024, oom_score_adj: 700, memory_bytes: 64 * 1024 * 1024 },
      user: '1234:1234',
      read_only_root: true,
      capabilities: { drop: ['ALL'], add: ['KILL'] },
      stop_signal: 'SIGINT',
      grace_seconds: 30,
    });
    await put(item);
    const container = await isReady(item);
    expect(await inside(container, '/bin/cat', '/etc/app/token')).toBe('0 correct horse');
    expect(await inside(container, '/bin/sh', '-c', 'echo x > /etc/app/motd')).toMatch(/^[12] /);
    expect(await inside(container, '/bin/sh', '-c', 'echo x > /anywhere')).toContain('Read-only file system');
    expect(await inside(container, '/bin/sh', '-c', 'echo x > /scratch/a && cat /scratch/a')).toBe('0 x');
    const status = await inside(container, '/bin/cat', '/proc/1/status');
    expect(status).toMatch(/^Uid:\s+1234\s/m);
    expect(status).toMatch(/^CapBnd:\s+0000000000000020$/m);
    expect(await inside(container, '/bin/cat', '/proc/1/oom_score_adj')).toBe('0 700');
    const detail = await docker.runtime.inspect(container.id, AbortSignal.timeout(10_000));
    expect(Object.keys(detail?.addresses ?? {}).toSorted()).toEqual([docker.network, second].toSorted());
    expect(detail).toMatchObject({ processes: 40, shmBytes: 1024 * 1024, memoryBytes: 64 * 1024 * 1024 });

    // An agent that comes back finds nothing to change.
    await agent[Symbol.asyncDispose]();
    await start();
    expect((await isReady(item)).id).toBe(container.id);

    const files = join(dir, 'files');
    expect(await readdir(files)).toHaveLength(1);
    await put({ ...item, generation: 2, run: 'stopped' });
    await until('stopped', () => Promise.resolve(agent.backend.report(item.id)?.phase === 'stopped'));
    expect(await readdir(files)).toEqual([]);
    const page = (await agent.backend.call(
      { method: 'logs.read', query: { workload_id: item.workload_id, tail: 10 } },
      AbortSignal.timeout(5_000),
    )) as { lines: { message: string }[] };
    expect(page.lines.map(({ message }) => message)).toContain('ended as asked');
    await put();
    await docker.runtime.removeNetwork(second, AbortSignal.timeout(10_000));
  });

  test('brings a service up and sets right what is done to its container from outside', async () => {
    const item = service();
    await put(item);
    const first = await isReady(item);
    expect(first.name).toBe(containerName(item));

    await engineCall('DELETE', `/containers/${first.id}?force=1`);
    const second = await isReady(item, first.id);
    // The engine tells of its end, in which it is removed, and of its removal one after the other.
    await until('its removal is told', async () =>
      agent.backend.report(item.id)?.events?.items.some(({ reason }) => reason === 'ContainerRemoved'),
    );

    await engineCall('POST', `/containers/${second.id}/stop?t=1`);
    await until('started again', () => Promise.resolve((agent.backend.report(item.id)?.restarts ?? 0) >= 1));
    expect((await isReady(item)).id).toBe(second.id);

    await engineCall('POST', `/containers/${second.id}/pause`);
    await until('goes on', async () => (await containerOf(item))?.state === 'running');
    expect((await isReady(item)).id).toBe(second.id);

    await engineCall('POST', `/containers/${second.id}/update`, { Memory: 64e6, MemorySwap: 64e6 });
    const third = await isReady(item, second.id);

    await engineCall('POST', `/containers/${third.id}/rename?name=sp-other-${item.id.slice(0, 8)}`);
    const fourth = await isReady(item, third.id);
    expect(fourth.name).toBe(containerName(item));

    await engineCall('POST', `/networks/${docker.network}/disconnect`, { Container: fourth.id, Force: true });
    await isReady(item, fourth.id);
  });

  test('replaces a container that somebody made under its name with another environment', async () => {
    const item = service();
    await put(item);
    const made = await isReady(item);
    const detail = await docker.runtime.inspect(made.id, AbortSignal.timeout(10_000));
    await agent[Symbol.asyncDispose]();
    await docker.runtime.remove(made.id, AbortSignal.timeout(10_000));
    const forged = await docker.runtime.create(
      {
        name: made.name,
        image: images.http,
        labels: { ...detail!.labels },
        env: { GREETING: 'hello', EVIL: '1' },
        networks: [{ name: docker.network, aliases: ['x'] }],
        restart: 'no',
      },
      AbortSignal.timeout(10_000),
    );
    await docker.runtime.start(forged, AbortSignal.timeout(10_000));
    await start();
    await put(item);
    const container = await isReady(item, forged);
    const now = await docker.runtime.inspect(container.id, AbortSignal.timeout(10_000));
    expect(now!.env.some((it) => it.startsWith('EVIL='))).toBe(false);
  });

  test('adopts what runs after a restart, and leaves strangers alone', async () => {
    const item = service();
    await put(item);
    const before = await isReady(item);
    const startedAt = agent.backend.report(item.id)?.started_at;
    const stranger = await docker.runtime.create(
      docker.spec({ image: images.http, labels: { [labels.assignment]: item.id, [labels.type]: 'service' } }),
      AbortSignal.timeout(10_000),
    );
    await docker.runtime.start(stranger, AbortSignal.timeout(10_000));
    await agent[Symbol.asyncDispose]();
    await start();
    await agent.settled();
    expect(agent.backend.report(item.id)).toMatchObject({
      ready: true,
      started_at: startedAt,
      container_id: before.id,
    });
    await put();
    await until('gone', () => Promise.resolve(agent.backend.report(item.id)?.gone === true));
    const left = await docker.runtime.list(docker.server, AbortSignal.timeout(10_000));
    expect(left.map(({ id, state }) => ({ id, state }))).toEqual([{ id: stranger, state: 'running' }]);
    await docker.runtime.remove(stranger, AbortSignal.timeout(10_000));
  });

  test('reports why a process ended, and keeps every line from the first on', async () => {
    const item = service({ image: images.shell, command: ['/bin/sh', '-c', 'echo one; echo two >&2; exit 7'] });
    delete item.spec.probe;
    await put(item);
    await until('reported', () => Promise.resolve(agent.backend.report(item.id)?.error?.code === 'exited'));
    const { message } = agent.backend.report(item.id)!.error!;
    expect(message).toMatch(/^The process exited with code 7: /);
    expect(message).toContain('one');
    expect(message).toContain('two');
    await put({ ...item, generation: 2, run: 'stopped' });
    await until('stopped', () => Promise.resolve(agent.backend.report(item.id)?.phase === 'stopped'));
    expect(await containerOf(item)).toBeUndefined();
    const page = (await agent.backend.call(
      { method: 'logs.read', query: { workload_id: item.workload_id, tail: 100 } },
      AbortSignal.timeout(5_000),
    )) as { lines: { message: string; stream: string }[] };
    const stdout = page.lines.filter((line) => line.stream === 'stdout');
    expect(stdout[0]?.message).toBe('one');
    expect(page.lines.filter((line) => line.stream === 'stderr').length).toBe(stdout.length);
  });

  test('reads up what a service wrote while the agent was away, each line once', async () => {
    const item = service({
      image: images.shell,
      command: ['/bin/sh', '-c', 'i=0; while true; do echo line $i; i=$((i+1)); sleep 0.02; done'],
    });
    delete item.spec.probe;
    await put(item);
    const lines = async (): Promise<number[]> => {
      const page = (await agent.backend.call(
        { method: 'logs.read', query: { workload_id: item.workload_id, tail: 5000 } },
        AbortSignal.timeout(5_000),
      )) as { lines: { message: string }[] };
      return page.lines.map((line) => Number(line.message.replace('line ', '')));
    };
    await until('some lines', async () => (await lines()).length > 20);
    await agent[Symbol.asyncDispose]();
    const { id } = (await containerOf(item))!;
    const written = async () => (await byCommand('logs', id)).split('\n').length;
    const known = await written();
    await until('it wrote meanwhile', async () => (await written()) > known + 20);
    await start();
    const before = (await lines()).length;
    await until('more lines', async () => (await lines()).length > before + 100);
    const seen = await lines();
    expect(seen).toEqual(Array.from({ length: seen.length }, (_, index) => index));
    await put();
    await until('gone', () => Promise.resolve(agent.backend.report(item.id)?.gone === true));
  });
});
