import { availableParallelism, totalmem } from 'node:os';
import { systemClock } from '../agent-protocol/clock.ts';
import { IptablesPublisher } from '../agent/ports/iptables-publisher.ts';
import type { BuildLimits } from '../agent/runtime/docker/build.ts';
import type { ContainerLimits } from '../agent/runtime/docker/creation.ts';
import { defaultContainerLimits, dockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';
import type { DockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';
import { prober } from '../agent/runtime/probe.ts';
import type { EngineOptions, LocalEngine } from './local-engine.ts';

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

/** The Docker engine of this machine. */
export function localRuntime(socketPath: string): DockerRuntime {
  return dockerRuntime({ socketPath, clock: systemClock, containers: containerLimits, builds });
}

/** The Docker engine of this machine, whose ports are published by the kernel. */
export function openEngine({ config, serverId, log }: EngineOptions): LocalEngine {
  const runtime = localRuntime(config.dockerSocket);
  return {
    runtime,
    ports: new IptablesPublisher(serverId, { clock: systemClock, log, takeOver: config.takeOverPorts }),
    prober: prober({ clock: systemClock, runtime }),
  };
}
