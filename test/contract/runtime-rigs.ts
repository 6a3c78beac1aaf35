import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pack } from 'tar-stream';
import { systemClock } from '../../time/clock.ts';
import { MockEngine } from '../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import type { ProgramRequest, ProgramScript, RunScript } from '../../agent/runtime/mock/script.ts';
import { labels, type BuildOptions, type ContainerRuntime, type ContainerSpec } from '../../agent/runtime/runtime.ts';
import { engineCall, testDocker } from '../harness/docker.ts';
import { testRegistry } from '../harness/registry.ts';
import { until } from '../harness/until.ts';
import { ensureRichImage, ensureTestImages } from '../harness/test-image.ts';

/** What a container does: writes its lines at the given distance, then exits or stays. */
export interface Behaviour {
  lines?: readonly string[];
  everyMs?: number;
  /** Absent: stays until it is stopped, then ends with code 0. */
  exitCode?: number;
  ignoreTerm?: boolean;
  /** The only signal that it stops by, with code 0: `SIGUSR1`. */
  stopsOn?: string;
  /**
   * Its image has more than programs: the file `/seed/greeting` with `hello`, an anonymous volume at `/cache`, and a
   * health check that passes or not.
   */
  health?: 'passes' | 'fails';
}

/** What a program does that is run in a container. */
export interface Program {
  /** Writes the numbers from 1 to this one, a line for each. */
  counts?: number;
  /** Writes the id of its user. */
  tellsUser?: boolean;
  takesMs?: number;
  exitCode?: number;
}

/** One implementation of the runtime with what its suite needs around it. */
export interface RuntimeRig extends AsyncDisposable {
  runtime: ContainerRuntime;
  /** Value of `labels.server` on all that the rig makes. */
  server: string;
  network: string;
  spec(behaviour: Behaviour, changes?: Partial<ContainerSpec>): ContainerSpec;
  /** The command of a program for containers of this rig. */
  program(what: Program): readonly string[];
  /** Of a container that cannot be started as its program does not exist. */
  unstartable(): ContainerSpec;
  registry: { image: string; digest: string; missing: string; forbidden: string };
  /** Of a build that writes `line` and then succeeds or not. */
  build(line: string, succeeds: boolean): BuildOptions;
  /** Makes a file of this content on the server and answers with its path. */
  file(content: string): Promise<string>;
  pauseByHand(id: string): Promise<void>;
  /** A file of so many bytes into the container's own layer. */
  writeByHand(id: string, bytes: number): Promise<void>;
  /** As a process of the container does it; answers whether it could. */
  write(id: string, path: string, content: string): Promise<boolean>;
  /** As a process of the container does it; `undefined`: there is no such file. */
  read(id: string, path: string): Promise<string | undefined>;
  /** Without labels. It goes with the rig. */
  makeVolumeByHand(name: string): Promise<void>;
  /** From the rig's network. */
  disconnectByHand(id: string): Promise<void>;
  removeNetworkByHand(name: string): Promise<void>;
  makeNetworkByHand(name: string, labels: Record<string, string>): Promise<void>;
  /** Makes a container without our labels and answers with its id. */
  foreign(): Promise<string>;
}

interface Execution {
  Running: boolean;
  ExitCode: number | null;
}

export async function dockerRig(): Promise<RuntimeRig> {
  const images = await ensureTestImages();
  const rich = await ensureRichImage();
  const handMade: string[] = [];
  const docker = await testDocker();
  const registry = await testRegistry();
  const files = await serverFiles();
  const { server, network } = docker;
  return {
    runtime: docker.runtime,
    server,
    network,
    registry,
    spec({ lines = [], everyMs = 0, exitCode, ignoreTerm = false, stopsOn, health }, changes = {}) {
      const pause = everyMs === 0 ? '' : `sleep ${everyMs / 1000};`;
      const command = [
        ignoreTerm || stopsOn !== undefined ? "trap '' TERM;" : "trap 'exit 0' TERM;",
        stopsOn === undefined ? '' : `trap 'exit 0' ${stopsOn.replace('SIG', '')};`,
        health === 'passes' ? 'echo yes >/tmp/healthy;' : '',
        ...lines.map((line) => `echo '${line}';${pause}`),
        exitCode === undefined ? 'while :; do sleep 600 & wait; done' : `exit ${exitCode}`,
      ];
      const image = health === undefined ? images.shell : rich;
      return docker.spec({ image, command: ['/bin/sh', '-c', command.join('\n')], ...changes });
    },
    program({ counts, tellsUser = false, takesMs, exitCode = 0 }) {
      const steps = [
        counts === undefined ? 'true' : `seq 1 ${counts}`,
        tellsUser ? 'id -u' : 'true',
        takesMs === undefined ? 'true' : `sleep ${takesMs / 1000}`,
        `exit ${exitCode}`,
      ];
      return ['/bin/sh', '-c', steps.join(';')];
    },
    unstartable: () => docker.spec({ image: images.shell, command: ['/bin/missing'] }),
    build: (line, succeeds) => ({
      context: archive({ Dockerfile: `FROM ${images.shell}\nRUN echo ${line}${succeeds ? '' : ' && false'}\n` }),
      dockerfile: 'Dockerfile',
      tag: `setpoint-test/built:${randomUUID()}`,
      buildArgs: {},
      labels: { [labels.server]: server, 'setpoint.test-line': line },
    }),
    file: files.make,
    pauseByHand: async (id) => void (await engineCall('POST', `/containers/${id}/pause`)),
    async writeByHand(id, bytes) {
      const script = { Cmd: ['/bin/sh', '-c', `printf %${bytes}d 0 > /written`] };
      const { Id } = (await engineCall('POST', `/containers/${id}/exec`, script)) as { Id: string };
      await engineCall('POST', `/exec/${Id}/start`, { Detach: true });
      await until('the file is written', async () => {
        const { Running, ExitCode } = (await engineCall('GET', `/exec/${Id}/json`)) as Execution;
        return !Running && ExitCode === 0;
      });
    },
    async write(id, path, content) {
      const command = ['/bin/sh', '-c', 'printf %s "$1" >"$2"', 'sh', content, path];
      return (await docker.runtime.run(id, command, { timeoutMs: 20_000 }, AbortSignal.timeout(30_000))).exitCode === 0;
    },
    async read(id, path) {
      const reading = docker.runtime.run(id, ['/bin/cat', path], { timeoutMs: 20_000 }, AbortSignal.timeout(30_000));
      const { exitCode, output } = await reading;
      return exitCode === 0 ? output : undefined;
    },
    async makeVolumeByHand(Name) {
      handMade.push(Name);
      await engineCall('POST', '/volumes/create', { Name });
    },
    disconnectByHand: async (Container) =>
      void (await engineCall('POST', `/networks/${network}/disconnect`, { Container, Force: true })),
    removeNetworkByHand: async (name) => void (await engineCall('DELETE', `/networks/${name}`)),
    makeNetworkByHand: async (Name, Labels) => void (await engineCall('POST', '/networks/create', { Name, Labels })),
    async foreign() {
      const body = { Image: images.shell, HostConfig: { NetworkMode: network }, Labels: { 'setpoint.test': server } };
      const { Id } = (await engineCall('POST', '/containers/create', body)) as { Id: string };
      await engineCall('POST', `/containers/${Id}/start`);
      return Id;
    },
    async [Symbol.asyncDispose]() {
      const filters = encodeURIComponent(JSON.stringify({ label: [`setpoint.test=${server}`] }));
      const foreign = (await engineCall('GET', `/containers/json?all=true&filters=${filters}`)) as { Id: string }[];
      for (const { Id } of foreign) await engineCall('DELETE', `/containers/${Id}?force=true`);
      const pulled = await docker.runtime.image(registry.digest, AbortSignal.timeout(10_000));
      if (pulled) await docker.runtime.removeImage(pulled.id, AbortSignal.timeout(10_000));
      await docker[Symbol.asyncDispose]();
      for (const name of handMade)
        await docker.runtime.removeVolume(name, { alsoUnlabelled: true }, AbortSignal.timeout(10_000));
      await files[Symbol.asyncDispose]();
      await registry[Symbol.asyncDispose]();
    },
  };
}

export async function mockRig(): Promise<RuntimeRig> {
  const engine = new MockEngine(systemClock);
  const runtime = mockRuntime(engine);
  const files = await serverFiles();
  const server = randomUUID();
  const network = 'sp-mock';
  const digest = `registry.test/hello@sha256:${'1'.repeat(64)}`;
  engine.ensureNetwork(network, { [labels.server]: server });
  engine.addImage('registry.test/hello:1', { digest });
  engine.addImage('registry.test/forbidden:1', {
    failPull: { code: 'image_pull_failed', message: 'Cannot pull the image: unauthorized', retryable: false },
  });
  engine.onBuild(({ labels: given }) => {
    const line = given['setpoint.test-line'] ?? '';
    const fails = line.startsWith('fails');
    return {
      lines: [line],
      ...(fails ? { failure: { code: 'build_failed', message: 'Build failed', retryable: false } } : {}),
    };
  });
  const base = (image: string): ContainerSpec => ({
    name: `sp-test-${randomUUID().slice(0, 8)}`,
    image,
    labels: { [labels.server]: server },
    env: {},
    networks: [{ name: network, aliases: ['test'] }],
    restart: 'no',
  });
  return {
    runtime,
    server,
    network,
    registry: {
      image: 'registry.test/hello:1',
      digest,
      missing: 'registry.test/missing:1',
      forbidden: 'registry.test/forbidden:1',
    },
    spec({ lines = [], everyMs = 0, exitCode, ignoreTerm = false, stopsOn, health }, changes = {}) {
      const image = `test:${randomUUID()}`;
      const output = lines.map((text, index) => ({ afterMs: index * everyMs, text }));
      engine.addImage(image, {
        local: true,
        ...(health === undefined ? {} : { files: { '/seed/greeting': 'hello\n' }, volumes: ['/cache'] }),
        runs: {
          output,
          ignoreTerm,
          ...(stopsOn === undefined ? {} : { stopsOn }),
          ...(health === undefined ? {} : { health: healthAfterStart(health) }),
          programs: played,
          ...(exitCode === undefined ? {} : { runForMs: lines.length * everyMs + 5, exitCode }),
        },
      });
      const spec = base(image);
      return { ...spec, ...changes, labels: { ...spec.labels, ...changes.labels } };
    },
    program: (what) => ['program', JSON.stringify(what)],
    unstartable() {
      const image = `test:${randomUUID()}`;
      const message = 'Cannot start the container: exec: "/bin/missing": executable file not found';
      engine.addImage(image, {
        local: true,
        runs: { failStart: { code: 'create_failed', message, retryable: false } },
      });
      return base(image);
    },
    build: (line) => ({
      context: archive({ Dockerfile: '' }),
      dockerfile: 'Dockerfile',
      tag: `setpoint-test/built:${randomUUID()}`,
      buildArgs: {},
      labels: { [labels.server]: server, 'setpoint.test-line': line },
    }),
    file: files.make,
    async pauseByHand(id) {
      engine.pauseByHand(id);
    },
    async writeByHand(id, bytes) {
      engine.changeByHand(id, { writtenBytes: bytes });
    },
    async write(id, path, content) {
      try {
        engine.find(id)?.files.write(path, content);
        return true;
      } catch {
        return false;
      }
    },
    async read(id, path) {
      return engine.find(id)?.files.read(path);
    },
    async makeVolumeByHand(name) {
      engine.volumes.ensure(name, {});
    },
    async disconnectByHand(id) {
      engine.disconnectByHand(id);
    },
    async removeNetworkByHand(name) {
      engine.removeNetwork(name);
    },
    async makeNetworkByHand(name, given) {
      engine.ensureNetwork(name, given);
    },
    async foreign() {
      const { id } = await engine.foreign({ ...base('foreign:1'), labels: {} });
      return id;
    },
    async [Symbol.asyncDispose]() {
      for (const { id } of engine.containers) engine.remove(id);
      await files[Symbol.asyncDispose]();
    },
  };
}

/** The first check comes a moment after the start. */
function healthAfterStart(end: 'passes' | 'fails'): NonNullable<RunScript['health']> {
  return (runningMs) => (runningMs < 20 ? 'starting' : end === 'passes' ? 'healthy' : 'unhealthy');
}

/** What a {@link Program} does on the mock engine. */
function played({ command, user }: ProgramRequest): ProgramScript {
  const { counts = 0, tellsUser = false, ...rest } = JSON.parse(command[1] ?? '{}') as Program; // made by the rig
  const numbers = Array.from({ length: counts }, (_, n) => `${n + 1}\n`).join('');
  return { ...rest, output: `${numbers}${tellsUser ? `${user ?? '0'}\n` : ''}` };
}

/** Files in a folder of this machine. */
async function serverFiles(): Promise<{ make: (content: string) => Promise<string> } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-rig-'));
  return {
    async make(content) {
      const path = join(folder, randomUUID());
      await writeFile(path, content, { mode: 0o444 });
      return path;
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

function archive(files: Record<string, string>): AsyncIterable<Uint8Array> {
  const tar = pack();
  for (const [name, content] of Object.entries(files)) tar.entry({ name }, content);
  tar.finalize();
  return Readable.from(tar);
}
