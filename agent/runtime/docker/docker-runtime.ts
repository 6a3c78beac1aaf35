import type { Clock } from '../../../time/clock.ts';
import type { ContainerRuntime } from '../runtime.ts';
import { belongings } from './belongings.ts';
import { build, type BuildLimits } from './build.ts';
import { builder } from './builder.ts';
import { kitBuild } from './buildkit/kit-build.ts';
import { trimBuildCache } from './buildkit/kit-cache.ts';
import { stepWrites } from './buildkit/step-writes.ts';
import { containers } from './containers.ts';
import type { ContainerLimits } from './creation.ts';
import { Engine } from './engine.ts';
import { copySource } from './copy-source.ts';
import { events } from './events.ts';
import { exec } from './exec.ts';
import { facts, folders } from './facts.ts';
import { foreign, foreignValues } from './foreign.ts';
import { images } from './images.ts';
import { networks } from './networks.ts';
import { output } from './output.ts';
import { programs } from './programs.ts';
import { connections, listeners } from './connections.ts';
import { sharedBridge } from './shared-bridge.ts';
import { usage } from './usage.ts';
import { volumes } from './volumes.ts';

export interface DockerOptions {
  /** Unix socket of the engine. */
  socketPath: string;
  clock: Clock;
  containers: ContainerLimits;
  builds: BuildLimits;
}

export const defaultContainerLimits: ContainerLimits = {
  pids: 4096,
  oomScoreAdj: 500,
  logFileBytes: 10 * 1024 * 1024,
  logFiles: 3,
};

export interface DockerRuntime extends ContainerRuntime, Disposable {}

/** A Docker engine, 20.10 or later, by its API over the unix socket. Disposal closes the connections. */
export function dockerRuntime(options: DockerOptions): DockerRuntime {
  const { clock } = options;
  const engine = new Engine(options.socketPath, clock);
  return {
    name: 'docker',
    can: { restart: true, hold: true },
    version: (signal) => engine.version(signal),
    facts: (signal) => facts(engine, signal),
    folders: (signal) => folders(engine, signal),
    ...containers(engine, clock, options.containers),
    ...images(engine),
    ...networks(engine),
    ...volumes(engine),
    usage: usage(engine),
    connections,
    listeners,
    run: programs(engine, clock),
    build: (request, line, signal) => build(engine, options.builds, request, line, signal),
    trimBuildCache: (keptBytes, signal) => trimBuildCache(engine, keptBytes, signal),
    stepWrites: (scope) => stepWrites(scope),
    sharedBridge: (signal) => sharedBridge(engine, clock, signal),
    builder: (signal) => builder(engine, signal),
    buildByKit: (request, line, signal) => kitBuild(engine, options.builds, request, line, signal),
    output: (id, which, signal) => output(engine, clock, id, which, signal),
    exec: (id, what, signal) => exec(engine, clock, id, what, signal),
    belongings: (signal) => belongings(engine, signal),
    copySource: (name, signal) => copySource(engine, name, signal),
    foreign: (signal) => foreign(engine, signal),
    foreignValues: (ids, signal) => foreignValues(engine, ids, signal),
    events: (server, signal) => events(engine, clock, server, signal),
    [Symbol.dispose]: () => engine.close(),
  };
}
