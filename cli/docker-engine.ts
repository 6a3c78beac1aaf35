import { availableParallelism, totalmem } from 'node:os';
import { systemClock } from '../time/clock.ts';
import type { BuildLimits } from '../agent/runtime/docker/build.ts';
import type { ContainerLimits } from '../agent/runtime/docker/creation.ts';
import { defaultContainerLimits, dockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';
import type { DockerOptions, DockerRuntime } from '../agent/runtime/docker/docker-runtime.ts';

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
  return dockerRuntime(dockerOptions(socketPath));
}

/** The options of the engine, with the limits that an agent gives to containers and builds. */
export function dockerOptions(socketPath: string): DockerOptions {
  return { socketPath, clock: systemClock, containers: containerLimits, builds };
}
