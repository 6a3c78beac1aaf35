import { describe, expect, test } from 'vitest';
import { Survey, surveyLimits } from '../../../agent-protocol/survey.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import type { Foreign, ForeignValues } from '../../../agent/runtime/runtime.ts';
import { systemClock } from '../../../time/clock.ts';
import { testBuilds } from '../../harness/docker.ts';
import { recordingEngine } from '../../harness/recording-engine.ts';

const hex = (n: number): string => n.toString(16).padStart(64, '0');
const image = `sha256:${hex(0xa)}`;

interface Fixture {
  /** Changes of what `docker inspect` shows, by part. */
  config?: object;
  host?: object;
  rest?: object;
}

/** What the engine shows of a container that `docker run` made. */
function inspected(id: string, { config = {}, host = {}, rest = {} }: Fixture): object {
  return {
    Id: id,
    Name: '/web',
    Image: image,
    State: { Status: 'running', ExitCode: 0, StartedAt: '2030-01-01T00:00:00.5Z' },
    Config: {
      Image: 'nginx:1.27',
      Env: ['PATH=/usr/bin', 'VERSION=1'],
      Cmd: ['nginx', '-g', 'daemon off;'],
      Entrypoint: ['/entry.sh'],
      User: '',
      WorkingDir: '/srv',
      ExposedPorts: { '80/tcp': {} },
      Labels: null,
      StopSignal: 'SIGQUIT',
      ...config,
    },
    HostConfig: {
      NetworkMode: 'bridge',
      PidMode: '',
      IpcMode: 'private',
      UTSMode: '',
      UsernsMode: '',
      Runtime: 'runc',
      Privileged: false,
      ReadonlyRootfs: false,
      Init: null,
      CapAdd: null,
      CapDrop: null,
      SecurityOpt: null,
      GroupAdd: null,
      ExtraHosts: null,
      Dns: [],
      Links: null,
      Devices: [],
      DeviceRequests: null,
      Ulimits: null,
      ShmSize: 67_108_864,
      Memory: 0,
      NanoCpus: 0,
      CpuQuota: 0,
      CpuPeriod: 0,
      RestartPolicy: { Name: 'unless-stopped', MaximumRetryCount: 0 },
      PortBindings: {},
      ...host,
    },
    Mounts: [],
    NetworkSettings: { Networks: { bridge: {} }, Ports: { '80/tcp': null } },
    ...rest,
  };
}

const imageShown = {
  Id: image,
  RepoDigests: [`nginx@sha256:${hex(0xd)}`],
  Config: {
    Env: ['PATH=/usr/bin', 'VERSION=1'],
    Cmd: ['nginx', '-g', 'daemon off;'],
    Entrypoint: ['/entry.sh'],
    User: '',
    WorkingDir: '/srv',
    ExposedPorts: { '80/tcp': {} },
    StopSignal: 'SIGQUIT',
  },
};

/** What the runtime tells of an engine with these containers; `undefined`: it goes before it is inspected. */
async function told(
  containers: readonly (Fixture | object | undefined)[],
  { volumes = [], list = {} }: { volumes?: readonly object[]; list?: object } = {},
): Promise<Foreign & { values: ForeignValues[]; asked: string[] }> {
  const answers = new Map<string, object>([
    [`/images/${encodeURIComponent(image)}/json`, imageShown],
    ['/volumes', { Volumes: volumes, Warnings: null }],
    [
      '/containers/json?all=true',
      containers.map((_, n) => ({ Id: hex(n), Names: ['/web'], Labels: {}, State: 'running', ...list })),
    ],
  ]);
  for (const [n, one] of containers.entries())
    if (one !== undefined) answers.set(`/containers/${hex(n)}/json`, inspected(hex(n), one));
  await using engine = await recordingEngine(({ path }) => {
    const body = answers.get(path);
    return body && { status: 200, body };
  });
  const { socketPath } = engine;
  using runtime = dockerRuntime({
    socketPath,
    clock: systemClock,
    containers: defaultContainerLimits,
    builds: testBuilds,
  });
  const found = await runtime.foreign(AbortSignal.timeout(10_000));
  const asked = engine.requests.map(({ path }) => path);
  const ids = containers.map((_, n) => hex(n));
  const values = await runtime.foreignValues(ids, AbortSignal.timeout(10_000));
  for (const { method } of engine.requests) expect(method).toBe('GET');
  return { ...found, values, asked };
}

describe('a container on Docker that no agent made', () => {
  test('is told by what it has beyond its image', async () => {
    const { containers, truncated } = await told([{}]);
    expect(truncated).toBe(false);
    expect(containers).toStrictEqual([
      {
        id: hex(0),
        name: 'web',
        state: 'running',
        exit_code: 0,
        started_at: '2030-01-01T00:00:00.5Z',
        image: { name: 'nginx:1.27', id: image, digests: imageShown.RepoDigests, is_here: true },
        labels: {},
        env: [],
        ports: [],
        exposed: [80],
        mounts: [],
        networks: ['bridge'],
        restart: 'unless-stopped',
        memory_bytes: 0,
        nano_cpus: 0,
        settings: [],
      },
    ]);
  });

  test('is told with names of variables, never with their values', async () => {
    const env = ['PATH=/usr/bin', 'VERSION=2', 'PASSWORD=hunter2=x', 'EMPTY='];
    const command = { Env: env, Cmd: ['sh', '-c', 'app --password hunter2'] };
    const { containers } = await told([{ config: command }]);
    expect(containers[0]).toMatchObject({ env: ['VERSION', 'PASSWORD', 'EMPTY'] });
    expect(containers[0]?.command).toEqual(['sh', '-c', 'app --password ********']);
    expect(JSON.stringify(containers)).not.toContain('hunter2');
  });

  test('has the values of what is not of its image, byte for byte, and none where it removes a variable', async () => {
    const env = ['PATH=/usr/bin', 'VERSION=2', 'PASSWORD=hunter2=x', 'EMPTY=', 'LINES=a\nb ', 'GONE'];
    const labels = { 'setpoint.server': 's', 'setpoint.assignment': 'a'.repeat(36) };
    const { values } = await told([
      { config: { Env: env } },
      { config: { Env: env, Labels: labels }, rest: { Name: `/sp-web-${'a'.repeat(8)}` } },
      undefined,
    ]);
    const own = { VERSION: '2', PASSWORD: 'hunter2=x', EMPTY: '', LINES: 'a\nb ' };
    expect(values).toEqual([{ id: hex(0), env: own }]);
  });

  test('is told with its ports once each, as they are now, or as they were asked for', async () => {
    const now = {
      '80/tcp': [
        { HostIp: '0.0.0.0', HostPort: '32768' },
        { HostIp: '::', HostPort: '32768' },
      ],
      '53/udp': [{ HostIp: '127.0.0.1', HostPort: '53' }],
    };
    const asked = { '80/tcp': [{ HostIp: '', HostPort: '' }] };
    const rest = { NetworkSettings: { Networks: {}, Ports: now } };
    const { containers } = await told([
      { host: { PortBindings: asked }, rest },
      {
        host: { PortBindings: asked },
        rest: {
          State: { Status: 'exited', ExitCode: 3, StartedAt: '0001-01-01T00:00:00Z' },
          NetworkSettings: { Networks: {}, Ports: {} },
        },
      },
    ]);
    expect(containers[0]?.ports).toEqual([
      { port: 80, protocol: 'tcp', server_port: 32_768, address: '0.0.0.0' },
      { port: 53, protocol: 'udp', server_port: 53, address: '127.0.0.1' },
    ]);
    expect(containers[1]).toMatchObject({
      state: 'exited',
      exit_code: 3,
      started_at: '',
      ports: [{ port: 80, protocol: 'tcp', server_port: 0, address: '0.0.0.0' }],
    });
  });

  test('is told with mounts, limits and its health check', async () => {
    const mounts = [
      { Type: 'volume', Name: 'data', Source: '/var/lib/docker/volumes/data/_data', Destination: '/data', RW: true },
      { Type: 'bind', Source: '/srv', Destination: '/srv', RW: false },
      { Type: 'tmpfs', Source: '', Destination: '/run', RW: true },
    ];
    const health = { Test: ['CMD', 'curl', '-f', 'http://localhost/up'] };
    const host = { Memory: 1024 ** 3, CpuQuota: 150_000, CpuPeriod: 100_000, RestartPolicy: { Name: '' } };
    const { containers } = await told([{ config: { Healthcheck: health }, host, rest: { Mounts: mounts } }]);
    expect(containers[0]).toMatchObject({
      mounts: [
        { type: 'volume', source: 'data', path: '/data', read_only: false },
        { type: 'bind', source: '/srv', path: '/srv', read_only: true },
        { type: 'tmpfs', source: '', path: '/run', read_only: false },
      ],
      health: { port: 80, path: '/up' },
      memory_bytes: 1024 ** 3,
      nano_cpus: 1_500_000_000,
      restart: 'no',
    });
  });

  test('is told with every setting that an application does not have', async () => {
    const config = { User: '1000', WorkingDir: '/', StopSignal: 'SIGINT', Entrypoint: ['/other', 'hunter2'] };
    const host = {
      NetworkMode: 'host',
      PidMode: 'host',
      IpcMode: 'host',
      UTSMode: 'host',
      UsernsMode: 'host',
      Runtime: 'kata',
      Privileged: true,
      ReadonlyRootfs: true,
      Init: true,
      CapAdd: ['CAP_NET_ADMIN', 'CHOWN', 'SYS_TIME'],
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true', 'seccomp=unconfined'],
      GroupAdd: ['998'],
      ExtraHosts: ['db:10.0.0.1'],
      Dns: ['9.9.9.9'],
      Links: ['/db:/web/db'],
      Devices: [{ PathOnHost: '/dev/kvm', PathInContainer: '/dev/kvm', CgroupPermissions: 'rwm' }],
      DeviceRequests: [{ Driver: 'nvidia', Count: -1 }],
      Ulimits: [{ Name: 'nofile', Hard: 1, Soft: 1 }],
      Sysctls: { 'net.core.somaxconn': '1024' },
      Tmpfs: { '/cache': 'size=1m' },
      ShmSize: 268_435_456,
    };
    const { containers } = await told([{ config, host }]);
    expect(JSON.stringify(containers)).not.toContain('hunter2');
    expect(Object.fromEntries(containers[0]?.settings.map(({ name, value }) => [name, value]) ?? [])).toEqual({
      privileged: '',
      read_only_root: '',
      init: '',
      gpus: '',
      entrypoint: '',
      network_mode: 'host',
      pid_mode: 'host',
      ipc_mode: 'host',
      uts_mode: 'host',
      userns_mode: 'host',
      runtime: 'kata',
      user: '1000',
      working_dir: '/',
      stop_signal: 'SIGINT',
      shm: '256 MiB',
      capabilities: 'NET_ADMIN, SYS_TIME',
      dropped_capabilities: 'ALL',
      security_options: 'seccomp=unconfined',
      groups: '998',
      extra_hosts: 'db:10.0.0.1',
      dns: '9.9.9.9',
      links: '/db:/web/db',
      devices: '/dev/kvm',
      ulimits: 'nofile',
      sysctls: 'net.core.somaxconn',
      tmpfs: '/cache',
    });
  });

  test('whose command is longer than that of an application can be is told without it', async () => {
    const { containers } = await told([{ config: { Cmd: ['sh', '-c', 'x'.repeat(surveyLimits.commandChars)] } }]);
    expect(containers[0]).toMatchObject({ command: [], settings: [{ name: 'long_command', value: '' }] });
  });

  test('whose image is gone is told with all that it has', async () => {
    const { containers } = await told([{ rest: { Image: `sha256:${hex(0xb)}` } }]);
    expect(containers[0]).toMatchObject({
      image: { is_here: false, digests: [] },
      env: ['PATH', 'VERSION'],
      command: ['nginx', '-g', 'daemon off;'],
      settings: [],
    });
  });
});

test('what goes meanwhile is left out, and what cannot be read is told as missing', async () => {
  const gone = await told([undefined, {}]);
  expect([gone.containers.map(({ id }) => id), gone.truncated]).toEqual([[hex(1)], false]);
  const odd = await told([{ rest: { State: { Status: 'of the future' } } }, {}]);
  expect([odd.containers.map(({ id }) => id), odd.truncated]).toEqual([[hex(1)], true]);
});

test('volumes are told without those of agents', async () => {
  const { volumes } = await told([], {
    volumes: [
      { Name: 'shop_data', Driver: 'local', Labels: { 'com.docker.compose.project': 'shop' } },
      { Name: hex(7), Driver: 'local', Labels: null },
      { Name: 'sp-vol-1', Driver: 'local', Labels: null },
      { Name: 'other', Driver: 'local', Labels: { 'setpoint.server': 'x' } },
    ],
  });
  expect(volumes).toEqual([
    { name: 'shop_data', driver: 'local', is_anonymous: false, project: 'shop' },
    { name: hex(7), driver: 'local', is_anonymous: true },
  ]);
});

test('an image is asked for once, and what is beyond the bounds is told as missing', async () => {
  const containers = Array.from({ length: surveyLimits.containers + 1 }, () => ({}));
  const found = await told(containers);
  expect(found.containers).toHaveLength(surveyLimits.containers);
  expect(found.truncated).toBe(true);
  expect(found.asked.filter((path) => path.startsWith('/images/'))).toHaveLength(1);
  Survey.parse({
    containers: found.containers.map((one) => ({ ...one, image: { ...one.image, is_shared: false } })),
    volumes: [],
    truncated: true,
  });
});
