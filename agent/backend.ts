import type { EngineState } from '../agent-protocol/messages.ts';
import { RemovalGuard } from './desired/removal-guard.ts';
import { checks } from './diagnose/checks.ts';
import { Examiner } from './diagnose/examiner.ts';
import type { EngineMonitor } from './engine/engine-monitor.ts';
import type { Entrances } from './entrances.ts';
import type { Files } from './files.ts';
import type { Fleet } from './fleet.ts';
import { InstanceQueries } from './instance-queries.ts';
import { identitiesHere } from './machine/machine-identities.ts';
import { newestSamples } from './metrics/newest.ts';
import type { Observation } from './observation.ts';
import type { AgentOptions } from './options.ts';
import type { Publication } from './ports/publication.ts';
import { SessionHost } from './session-host.ts';
import { straysOf } from './strays.ts';
import { realOutside, surroundingsOf } from './surroundings.ts';
import { Surveyor } from './survey/surveyor.ts';
import { gitVersion } from './tasks/git-version.ts';
import { Terminals } from './terminals.ts';
import { Tunnels } from './tunnels.ts';
import type { UninstallOrder } from './uninstall/order.ts';
import type { Upkeep } from './upkeep.ts';

type Parts = Files & Observation & Upkeep & Entrances & { server: string; fleet: Fleet; uninstall: UninstallOrder };

/** Answers the calls of the control plane, and tells it of the machine. */
export function backendOf(options: AgentOptions, parts: Parts): SessionHost {
  const { engine, images, gitHead, gitTag, dockerfiles, repositories, serverShells, updater, clock, log } = options;
  const { runtime } = engine;
  const { meter, monitor, observer, collector, metrics, publication, desired, ingress } = parts;
  return new SessionHost({
    ...parts,
    load: () => ({
      ...meter.load,
      workloads: metrics.workloads,
      images_removed: collector.freed.images,
      images_freed_bytes: collector.freed.bytes,
    }),
    metrics: {
      read: (query, signal) => metrics.read(query, signal),
      newest: (signal) => newestSamples(meter, signal),
    },
    traffic: ingress.traffic,
    engine: () => stateOf(monitor, publication),
    gitHead,
    gitTag,
    dockerfiles,
    repositories,
    terminals: new Terminals({ observer, runtime, shells: serverShells, log }),
    tunnels: new Tunnels({ observer, desired, clock }),
    examiner: examinerOf(options, parts),
    queries: new InstanceQueries({ observer, runtime }),
    surveyor: new Surveyor({ runtime, images, clock }),
    isOpen: serverShells !== undefined,
    removals: new RemovalGuard(clock),
    images,
    updater,
    clock,
    log,
  });
}

/** What examines and heals the machine. */
function examinerOf(
  {
    engine,
    images,
    controlPlane,
    disk,
    outside = realOutside,
    identities = identitiesHere,
    gitVersion: git = gitVersion,
    clock,
    log,
  }: AgentOptions,
  parts: Parts,
): Examiner {
  const { runtime, hasRules } = engine;
  const strays = straysOf({ ...parts, runtime, hasRules, identities, clock });
  const registries = () => images.registries;
  const world = surroundingsOf({
    ...parts,
    controlPlane: controlPlane ?? [],
    registries,
    disk,
    git,
    strays,
    hasRules,
    outside,
    clock,
    log,
  });
  return new Examiner({ checks, world, facts: (signal) => runtime.facts(signal), clock });
}

/** The state of the engine for the control plane, with rules of the machine that are missing. */
function stateOf({ state }: EngineMonitor, { engineRules }: Publication): EngineState {
  const message = engineRules?.fault;
  return message === undefined ? state : { ...state, warnings: [{ reason: 'RulesMissing', message }] };
}
