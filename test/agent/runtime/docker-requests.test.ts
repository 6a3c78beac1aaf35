import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../time/clock.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import { labels, type ContainerRuntime, type ContainerSpec } from '../../../agent/runtime/runtime.ts';
import { containerSpec } from '../../../agent/service/container-spec.ts';
import type { ServiceItem } from '../../../agent/service/memory.ts';
import { testBuilds } from '../../harness/docker.ts';
import { recordingEngine } from '../../harness/recording-engine.ts';
import { until } from '../../harness/until.ts';
import { network, service } from '../agent-world.ts';

const signal = (): AbortSignal => AbortSignal.timeout(10_000);
const made = 'c'.repeat(64);
const limits = { ...defaultContainerLimits, memoryBytes: 512 * 1024 * 1024, nanoCpus: 1_600_000_000 };

/** A service item of today whose container the engine is asked for. */
function item(spec: Parameters<typeof service>[1] = {}): ServiceItem {
  const id = '7c000000-0000-4000-8000-000000000000';
  return service({ id, tenant: 'default', workload_id: 'w'.repeat(8) }, spec) as ServiceItem;
}

/** What an engine was asked to make of it. */
async function created(it: ServiceItem): Promise<unknown> {
  await using engine = await recordingEngine(() => ({ status: 201, body: { Id: made } }));
  const { socketPath } = engine;
  using runtime = dockerRuntime({ socketPath, clock: systemClock, containers: limits, builds: testBuilds });
  const how = {
    server: 'server-1',
    name: 'sp-web-7c000000',
    image: `sha256:${'1'.repeat(64)}`,
    program: ['/bin/web'],
    storageBytes: 10e9,
    files: [],
  };
  expect(await runtime.create(containerSpec(it, how), signal())).toBe(made);
  const [asked, ...requests] = engine.requests;
  expect(asked).toMatchObject({ method: 'GET', path: '/info' }); // whether there is a first process to give
  return requests;
}

const ownLabels = {
  [labels.assignment]: '7c000000-0000-4000-8000-000000000000',
  [labels.generation]: '1',
  [labels.specHash]: 'hash-1',
  [labels.type]: 'service',
  [labels.workload]: 'wwwwwwww',
  [labels.tenant]: 'default',
  [labels.server]: 'server-1',
  [labels.storage]: '10000000000',
};

test('the container of a service without settings is asked for as ever, by one request', async () => {
  expect(await created(item())).toStrictEqual([
    {
      method: 'POST',
      path: '/containers/create?name=sp-web-7c000000',
      body: {
        Image: `sha256:${'1'.repeat(64)}`,
        Labels: { ...ownLabels, [labels.defaults]: '536870912 1600000000' },
        Env: ['GREETING=hello'],
        HostConfig: {
          NetworkMode: network,
          RestartPolicy: { Name: 'no' },
          PidsLimit: 4096,
          OomScoreAdj: 500,
          SecurityOpt: ['no-new-privileges:true'],
          CapDrop: ['NET_RAW', 'MKNOD'],
          LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
          Memory: 536_870_912,
          MemorySwap: 536_870_912,
          NanoCpus: 1_600_000_000,
          Init: true,
        },
        NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: ['web-abc123'] } } },
        StopTimeout: 10,
      },
    },
  ]);
});

test('the container of a service with every setting is asked for as ever, by one request', async () => {
  const spec = {
    command: ['serve', '--port', '80'],
    env: { A: '1', B: 'two words' },
    memory_bytes: 64 * 1024 * 1024,
    nano_cpus: 250_000_000,
    restart_token: 'again',
    port: 80,
    publish_port: 8080,
    health: { path: '/healthz' },
  };
  expect(await created(item(spec))).toStrictEqual([
    {
      method: 'POST',
      path: '/containers/create?name=sp-web-7c000000',
      body: {
        Image: `sha256:${'1'.repeat(64)}`,
        Labels: { ...ownLabels, [labels.restartToken]: 'again' },
        Env: ['A=1', 'B=two words'],
        Cmd: ['serve', '--port', '80'],
        HostConfig: {
          NetworkMode: network,
          RestartPolicy: { Name: 'no' },
          PidsLimit: 4096,
          OomScoreAdj: 500,
          SecurityOpt: ['no-new-privileges:true'],
          CapDrop: ['NET_RAW', 'MKNOD'],
          LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
          Memory: 67_108_864,
          MemorySwap: 67_108_864,
          NanoCpus: 250_000_000,
          Init: true,
        },
        NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: ['web-abc123'] } } },
        StopTimeout: 10,
      },
    },
  ]);
});

/** A container with every setting, on three networks, of which an engine is asked step by step. */
const full: ContainerSpec = {
  name: 'sp-db-1',
  image: `sha256:${'2'.repeat(64)}`,
  labels: {},
  env: {},
  entrypoint: ['/entry'],
  command: ['run'],
  processes: 100,
  oomScoreAdj: 200,
  shmBytes: 1024,
  stopSignal: 'SIGINT',
  user: 'postgres',
  readOnlyRoot: true,
  capabilities: { add: ['CHOWN'], drop: ['ALL'] },
  mounts: [
    { type: 'volume', volume: 'data', path: '/data', readOnly: false },
    { type: 'volume', volume: 'data', path: '/seed', readOnly: true, copy: false },
    { type: 'tmpfs', path: '/tmp', sizeBytes: 4096, mode: 0o1777 },
    { type: 'file', source: '/var/lib/setpoint/file', path: '/etc/file' },
  ],
  networks: [
    { name: 'sp-b', aliases: ['db'] },
    { name: 'sp-a', aliases: ['db', 'database'] },
    { name: 'sp-c', aliases: [] },
  ],
  restart: 'no',
};
const further = JSON.stringify(full.networks.slice(1));
const present = { status: 200, body: {} };

/** How an engine shows that container once it is on these networks. */
function shown(...networks: string[]): { status: number; body: object } {
  const places = networks.map((name) => [
    name,
    { DriverOpts: name === 'sp-b' ? { 'setpoint.networks': further } : null },
  ]);
  return { status: 200, body: { NetworkSettings: { Networks: Object.fromEntries(places) } } };
}

async function asked(
  answer: Parameters<typeof recordingEngine>[0],
  work: (runtime: ContainerRuntime) => Promise<unknown>,
  clock: Clock = systemClock,
): Promise<string[]> {
  await using engine = await recordingEngine(answer);
  const { socketPath } = engine;
  using runtime = dockerRuntime({ socketPath, clock, containers: limits, builds: testBuilds });
  await work(runtime);
  return engine.requests.map(({ method, path }) => `${method} ${path}`);
}

test('a container with every setting is made on its first network, and then joins the others', async () => {
  const bodies: unknown[] = [];
  const steps = await asked(
    ({ method, path, body }) => {
      if (method === 'POST') bodies.push(body);
      if (path.startsWith('/containers/create')) return { status: 201, body: { Id: made } };
      return path === `/containers/${made}/json` ? shown('sp-b') : present;
    },
    (runtime) => runtime.create(full, signal()),
  );
  expect(steps).toEqual([
    'GET /volumes/data',
    'GET /volumes/data',
    'POST /containers/create?name=sp-db-1',
    `GET /containers/${made}/json`,
    'POST /networks/sp-a/connect',
    'POST /networks/sp-c/connect',
  ]);
  expect(bodies).toStrictEqual([
    {
      Image: `sha256:${'2'.repeat(64)}`,
      Labels: { [labels.defaults]: '536870912 1600000000' },
      Env: [],
      Entrypoint: ['/entry'],
      Cmd: ['run'],
      User: 'postgres',
      StopSignal: 'SIGINT',
      HostConfig: {
        NetworkMode: 'sp-b',
        RestartPolicy: { Name: 'no' },
        PidsLimit: 100,
        OomScoreAdj: 200,
        SecurityOpt: ['no-new-privileges:true'],
        CapDrop: ['NET_RAW', 'MKNOD', 'ALL'],
        CapAdd: ['CHOWN'],
        LogConfig: { Type: 'local', Config: { 'max-size': '10485760', 'max-file': '3' } },
        Memory: 536_870_912,
        MemorySwap: 536_870_912,
        NanoCpus: 1_600_000_000,
        ShmSize: 1024,
        ReadonlyRootfs: true,
        Mounts: [
          { Type: 'volume', Source: 'data', Target: '/data', ReadOnly: false, VolumeOptions: { NoCopy: false } },
          { Type: 'volume', Source: 'data', Target: '/seed', ReadOnly: true, VolumeOptions: { NoCopy: true } },
          { Type: 'tmpfs', Target: '/tmp', TmpfsOptions: { SizeBytes: 4096, Mode: 0o1777 } },
          { Type: 'bind', Source: '/var/lib/setpoint/file', Target: '/etc/file', ReadOnly: true },
        ],
      },
      NetworkingConfig: {
        EndpointsConfig: { 'sp-b': { Aliases: ['db'], DriverOpts: { 'setpoint.networks': further } } },
      },
    },
    { Container: made, EndpointConfig: { Aliases: ['db', 'database'] } },
    { Container: made, EndpointConfig: { Aliases: [] } },
  ]);
});

test('a container that cannot join a network is removed again', async () => {
  const steps = await asked(
    ({ path }) => {
      if (path.startsWith('/containers/create')) return { status: 201, body: { Id: made } };
      if (path === '/networks/sp-a/connect') return { status: 500, body: { message: 'no address left' } };
      return path === `/containers/${made}/json` ? shown('sp-b') : present;
    },
    async (runtime) => {
      await expect(runtime.create(full, signal())).rejects.toMatchObject({
        code: 'create_failed',
        message: 'Cannot connect container sp-db-1: no address left',
      });
    },
  );
  expect(steps.slice(-2)).toEqual(['POST /networks/sp-a/connect', `DELETE /containers/${made}?force=true&v=true`]);
});

test('a container whose creation was interrupted joins what is missing before it starts', async () => {
  const steps = await asked(
    ({ path }) => (path === `/containers/${made}/json` ? shown('sp-b', 'sp-a') : present),
    (runtime) => runtime.start(made, signal()),
  );
  expect(steps).toEqual([
    `GET /containers/${made}/json`,
    'POST /networks/sp-c/connect',
    `POST /containers/${made}/start`,
  ]);
});

test('a container does not start without a network that it cannot join', async () => {
  const steps = await asked(
    ({ path }) => {
      if (path === `/containers/${made}/json`) return shown('sp-b');
      return path.startsWith('/networks') ? { status: 404, body: { message: 'network sp-a not found' } } : present;
    },
    async (runtime) => {
      await expect(runtime.start(made, signal())).rejects.toMatchObject({
        code: 'create_failed',
        message: 'Cannot start the container: network sp-a not found',
      });
    },
  );
  expect(steps).toEqual([`GET /containers/${made}/json`, 'POST /networks/sp-a/connect']);
});

test('a label of its image puts a container on no network', async () => {
  const body = {
    Config: { Labels: { 'setpoint.networks': further } },
    NetworkSettings: { Networks: { 'sp-b': { DriverOpts: null } } },
  };
  const steps = await asked(
    ({ path }) => (path === `/containers/${made}/json` ? { status: 200, body } : present),
    (runtime) => runtime.start(made, signal()),
  );
  expect(steps).toEqual([`GET /containers/${made}/json`, `POST /containers/${made}/start`]);
});

test('a container is not made without a volume that it mounts', async () => {
  const steps = await asked(
    () => undefined,
    async (runtime) => {
      await expect(runtime.create(full, signal())).rejects.toMatchObject({
        code: 'data_lost',
        retryable: true,
        message: 'Cannot create container sp-db-1: volume data does not exist',
      });
    },
  );
  expect(steps).toEqual(['GET /volumes/data']);
});

test.each([
  ['is gone', 404, 'exited'],
  ['is not known either', 500, 'runtime_unavailable'],
])('a program that the engine fails to run counts by its container, which %s', async (_, status, code) => {
  await asked(
    ({ path }) => ({ status: path.endsWith('/exec') ? 500 : status, body: { message: 'it fails' } }),
    async (runtime) => {
      const running = runtime.run(made, ['true'], { timeoutMs: 1_000 }, signal());
      await expect(running).rejects.toMatchObject({ code });
    },
  );
});

test('a volume whose folder the agent cannot read is not measured, and the reason says what to do', async () => {
  const body = { Name: 'data', Labels: null, Mountpoint: '/nowhere/data/_data' };
  await asked(
    () => ({ status: 200, body }),
    async (runtime) => {
      await expect(runtime.volumeUsage('data', signal())).rejects.toMatchObject({
        code: 'runtime_unavailable',
        message: 'Cannot measure volume data: the agent cannot read /nowhere/data/_data. Run the agent as root',
      });
    },
  );
});

test('a volume of another driver has taken the name', async () => {
  const conflict = { status: 409, body: { message: 'a volume named data already exists with the nfs driver' } };
  await asked(
    () => conflict,
    async (runtime) => {
      const making = runtime.ensureVolume('data', { [labels.server]: 'server-1' }, signal());
      await expect(making).rejects.toMatchObject({ code: 'name_taken' });
    },
  );
});

test('a volume has an option where the engine takes it, so that no prune takes the volume', async () => {
  const own = { [labels.server]: 'server-1' };
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-volume-'));
  const answer = { status: 201, body: { Name: 'data', Labels: own, Mountpoint: folder } };
  const refusal = { status: 400, body: { message: 'create data: invalid option: "size"' } };
  try {
    for (const takes of [true, false]) {
      const asking: unknown[] = [];
      await asked(
        ({ body }) => {
          asking.push(body);
          return takes || asking.length > 1 ? answer : refusal;
        },
        (runtime) => runtime.ensureVolume('data', own, signal()),
      );
      const body = { Name: 'data', Driver: 'local', Labels: own };
      const withOption = { ...body, DriverOpts: { size: '0' } };
      expect(asking).toEqual(takes ? [withOption] : [withOption, body]);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** Real time without pauses, and the milliseconds of each; the deadlines of calls never fire. */
function withoutPauses(): { clock: Clock; pauses: number[] } {
  const pauses: number[] = [];
  const timer: Clock['timer'] = (ms, fn) => {
    if (ms >= 30_000) return () => undefined;
    pauses.push(ms);
    return systemClock.timer(0, fn);
  };
  return { clock: { ...systemClock, timer }, pauses };
}

const update = `POST /containers/${made}/update`;
const cannotUpdate = (why: string) => ({
  status: 500,
  body: { message: `Cannot update container ${made}: ${why}` },
});

test.each([
  'cannot update a stopped container: unknown',
  'cannot update a deleted process: unknown',
  'OCI runtime update failed: runc did not terminate successfully: exit status 1: container not running: unknown',
  'runc did not terminate successfully: exit status 1: container does not exist: unknown',
  'container is not running',
  'no such container',
  `task ${made} not found: not found`,
  'process does not exist : not found',
  'container not created: not found',
  'ttrpc: closed: unknown',
  `unable to set unit properties: Unit docker-${made}.scope not found.: unknown`,
  `openat2 /sys/fs/cgroup/system.slice/docker-${made}.scope/cpu.weight: no such file or directory: unknown`,
])('a policy is set although the process keeps ending meanwhile, of which the engine says "%s"', async (why) => {
  const { clock, pauses } = withoutPauses();
  let tries = 0;
  const steps = await asked(
    () => ((tries += 1) < 8 ? cannotUpdate(why) : { status: 200, body: { Warnings: null } }),
    (runtime) => runtime.setRestart(made, 'no', signal()),
    clock,
  );
  expect(steps).toEqual(Array.from({ length: 8 }, () => update));
  expect(pauses).toEqual([10, 20, 40, 80, 160, 320, 640]);
});

test('a policy of a process that ends during every try is given up, with the reason of the engine', async () => {
  const { clock, pauses } = withoutPauses();
  const steps = await asked(
    () => cannotUpdate('cannot update a deleted process: unknown'),
    async (runtime) => {
      await expect(runtime.setRestart(made, 'no', signal())).rejects.toMatchObject({
        code: 'create_failed',
        retryable: true,
        message:
          'Cannot change the restart policy of the container: Cannot update container …: cannot update a deleted process',
      });
    },
    clock,
  );
  expect(steps).toHaveLength(10);
  expect(pauses.every((ms) => ms <= 1000)).toBe(true);
});

test.each([
  [500, `Cannot update container ${made}: container is marked for removal and cannot be "update"`],
  [500, `Cannot update container ${made}: write /var/lib/docker/containers/config: no space left on device`],
  [404, `No such container: ${made}`],
])('an update that the engine refuses with %i for another reason is not tried again', async (status, message) => {
  const steps = await asked(
    () => ({ status, body: { message } }),
    async (runtime) => {
      await expect(runtime.setRestart(made, 'no', signal())).rejects.toThrow(/Cannot change the restart policy/);
    },
  );
  expect(steps).toEqual([update]);
});

test('the engine is asked at once while it ends and removes instances that take their time', async () => {
  const isSlow = (path: string): boolean => path.includes('/stop?') || path.startsWith('/containers/b');
  await using engine = await recordingEngine(({ path }) => (isSlow(path) ? 'kept waiting' : { status: 200, body: [] }));
  const { socketPath } = engine;
  using runtime = dockerRuntime({ socketPath, clock: systemClock, containers: limits, builds: testBuilds });
  const leave = new AbortController();
  const slow = Array.from({ length: 70 }, (_, n) => [
    runtime.stop(`a${n}`, 3600, leave.signal),
    runtime.remove(`b${n}`, leave.signal),
  ]).flat();
  const ended = Promise.allSettled(slow);
  await until('all are asked for', async () => engine.requests.filter(({ path }) => isSlow(path)).length === 140);
  expect(await runtime.list('server-1', signal())).toEqual([]);
  leave.abort(new Error('The test is over'));
  await ended;
});
