import { BuildCache } from './engine/build-cache.ts';
import { ImageCollector } from './engine/image-collector.ts';
import type { Observer } from './engine/observer.ts';
import type { Files } from './files.ts';
import type { FleetLink } from './fleet-link.ts';
import { Housekeeping } from './housekeeping.ts';
import type { AgentOptions } from './options.ts';

/** What removes that nothing needs any more. */
export interface Upkeep {
  collector: ImageCollector;
  housekeeping: Housekeeping;
}

/** `networks`: those that are known to exist. `stack` ends it. */
export function keepHouse(
  { engine, images, clones, disk, clock, log }: AgentOptions,
  parts: Files & { server: string; observer: Observer; networks: Set<string> },
  link: FleetLink,
  stack: AsyncDisposableStack,
): Upkeep {
  const { runtime, steps } = engine;
  const { server, desired, observer, logs, networks, executions, uploads } = parts;
  const collector = new ImageCollector({ runtime, server, pulled: images.pulled, disk, clock, log });
  const housekeeping = new Housekeeping({
    runtime,
    server,
    desired,
    observer,
    logs,
    steps,
    networks,
    files: parts.instances,
    executions,
    collector,
    cache: new BuildCache({ runtime, server, disk, log }),
    clones,
    uploads,
    reports: link.reports,
    clock,
    log,
  });
  return { collector, housekeeping: stack.use(housekeeping) };
}
