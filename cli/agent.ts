import { flushCompileCache } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import type { Logger } from 'pino';
import packageFile from '../package.json' with { type: 'json' };
import { systemClock } from '../agent-protocol/clock.ts';
import type { Agent } from '../agent/agent.ts';
import { startAgent } from '../agent/agent.ts';
import type { DiskSpace } from '../agent/disk/disk-guard.ts';
import { diskGuard, diskSpace } from '../agent/disk/disk-guard.ts';
import { holdExclusively } from '../agent/machine/exclusive.ts';
import { openIdentity } from '../agent/identity.ts';
import { holdIdentity } from '../agent/machine/machine-identities.ts';
import { ImageRecord } from '../agent/engine/image-record.ts';
import { imageStore } from '../agent/engine/image-store.ts';
import { endOrphans } from '../agent/machine/orphans.ts';
import { IptablesPublisher } from '../agent/ports/iptables-publisher.ts';
import { MockPorts } from '../agent/ports/mock-ports.ts';
import type { Prober } from '../agent/runtime/probe.ts';
import { prober } from '../agent/runtime/probe.ts';
import type { PortPublisher } from '../agent/ports/publication.ts';
import { openRegistries, registryGuard } from '../agent/engine/registry-guard.ts';
import type { BuildLimits } from '../agent/runtime/docker/build.ts';
import type { ContainerLimits } from '../agent/runtime/docker/creation.ts';
import { defaultContainerLimits, dockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';
import type { DockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';
import { MockEngine } from '../agent/runtime/mock/mock-engine.ts';
import { stockImages } from '../agent/runtime/mock/mock-images.ts';
import { mockProber, mockRuntime } from '../agent/runtime/mock/mock-runtime.ts';
import type { ContainerRuntime } from '../agent/runtime/runtime.ts';
import { runBuild } from '../agent/tasks/build.ts';
import { git } from '../agent/tasks/git.ts';
import { headReader } from '../agent/tasks/read-head.ts';
import { openWorkFolder } from '../agent/tasks/work-folder.ts';
import { AgentConfig } from './agent-config.ts';
import { ensureDataDir } from './data-dir.ts';
import { createLog } from './log.ts';
import { parseConfig } from './parse-config.ts';
import { stopped } from './stop-signal.ts';

/** All logs of a server together. */
const logBytes = 10 * 1024 ** 3;
const GiB = 1024 ** 3;

/** Limits of each container of a build, and of all builds together (`group`). */
const builds: BuildLimits = {
  memoryBytes: 2 * GiB,
  cpuShares: 512,
  group: {
    name: 'setpoint-builds',
    pids: 4096,
    memoryBytes: Math.min(4 * GiB, totalmem() / 2),
    cpus: Math.max(0.5, availableParallelism() * 0.75),
  },
};
/**
 * One container gets at most half of the memory and four fifths of the CPUs, unless its application sets other limits.
 */
const containerLimits: ContainerLimits = {
  ...defaultContainerLimits,
  memoryBytes: Math.floor(totalmem() / 2),
  nanoCpus: availableParallelism() * 800_000_000,
};

/** `setpoint agent`: runs the agent of this machine until the signal aborts; its containers continue to run. */
export async function runAgent(options: unknown, signal: AbortSignal): Promise<void> {
  const config = parseConfig(AgentConfig, options);
  const log = createLog({ level: config.logLevel });
  await using agent = await startLocalAgent(config, log);
  log.info({ server: agent.serverId, runtime: config.runtime }, 'Agent started');
  flushCompileCache(); // a process that is killed would save nothing
  await stopped(signal);
  log.info('Agent stops');
}

/** The Docker engine of this machine. */
export function localRuntime(socketPath: string): DockerRuntime {
  return dockerRuntime({ socketPath, clock: systemClock, containers: containerLimits, builds });
}

/** @throws Error if there is neither an identity nor a join token, or if another agent uses the data directory. */
export async function startLocalAgent(config: AgentConfig, log: Logger): Promise<Agent> {
  await ensureDataDir(config.data);
  await using starting = new AsyncDisposableStack();
  starting.use(await holdExclusively(config.data));
  const { serverId } = await openIdentity(config.data, config.token);
  starting.use(await holdIdentity(serverId));
  const { runtime, ports, prober } = engineOf(config, serverId, log);
  const disk = (): Promise<DiskSpace> => diskSpace([config.data, config.dockerRoot]);
  const record = await ImageRecord.open(join(config.data, 'images.json'));
  const images = imageStore({
    runtime,
    disk: diskGuard(disk),
    // the mock engine has no registry
    registries: config.runtime === 'mock' ? openRegistries : registryGuard(() => record.registries),
    record,
    localImages: config.localImages,
  });
  const owner = resolve(config.data);
  const sources = git({
    clock: systemClock,
    owner,
    protocols: config.gitProtocols,
    fileRoots: config.gitFileRoots,
    loopback: config.gitLoopback,
    privateNetworks: config.gitPrivateNetworks,
    ...(config.sshConfig === undefined ? {} : { sshConfig: config.sshConfig }),
  });
  await endOrphans(owner, new AbortController().signal);
  const folder = await openWorkFolder(join(config.data, 'work'));
  const agent = await startAgent({
    controlPlane: config.server,
    ...(config.token === undefined ? {} : { joinToken: config.token }),
    dataDir: config.data,
    runtime,
    ports,
    prober,
    images,
    build: (item, progress, signal) =>
      runBuild(item, { runtime, images, git: sources, folder, server: serverId }, progress, signal),
    gitHead: headReader({ git: sources, folder }),
    disk,
    logBytes,
    version: packageFile.version,
    clock: systemClock,
    random: Math.random,
    log,
  });
  starting.use(agent);
  const running = starting.move();
  return { ...agent, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

function engineOf(
  config: AgentConfig,
  serverId: string,
  log: Logger,
): { runtime: ContainerRuntime; ports: PortPublisher; prober: Prober } {
  if (config.runtime === 'docker') {
    const runtime = localRuntime(config.dockerSocket);
    return {
      runtime,
      ports: new IptablesPublisher(serverId, { clock: systemClock, log, takeOver: config.takeOverPorts }),
      prober: prober({ clock: systemClock, runtime }),
    };
  }
  const engine = new MockEngine(systemClock);
  stockImages(engine);
  return { runtime: mockRuntime(engine), ports: new MockPorts().publisher(), prober: mockProber(engine) };
}
