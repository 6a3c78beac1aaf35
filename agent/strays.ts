import type { Clock } from '../time/clock.ts';
import type { StrayContainer, StrayNetwork, Strays, StrayVolume } from './diagnose/world.ts';
import type { DesiredSet } from './desired/desired.ts';
import type { Observer } from './engine/observer.ts';
import type { Fleet } from './fleet.ts';
import type { Housekeeping } from './housekeeping.ts';
import { findLeftovers, type Leftover } from './leftovers.ts';
import type { Identities } from './machine/machine-identities.ts';
import { removeRules } from './ports/iptables-publisher.ts';
import { shortOwner } from './ports/rules.ts';
import { stagedName } from './volumes/volume-copies.ts';
import type { MadeVolumes } from './volumes/made-volumes.ts';
import { anonymousVolumes } from './runtime/anonymous.ts';
import { labels, type ContainerRuntime } from './runtime/runtime.ts';

interface Deps {
  runtime: ContainerRuntime;
  server: string;
  desired: DesiredSet;
  observer: Observer;
  fleet: Pick<Fleet, 'sync'>;
  housekeeping: Pick<Housekeeping, 'unneededNetworks' | 'removeNetwork'>;
  made: Pick<MadeVolumes, 'removed'>;
  /** See `findLeftovers`. */
  hasRules: boolean;
  /** The agents that run on this machine. */
  identities: () => Promise<Identities>;
  clock: Clock;
}

/** Most volumes that are measured in one examination: of the others it is not known whether they are empty. */
const mostMeasured = 20;

/**
 * What agents left on this machine. Of the agent's own server that is what its ledger and its desired set tell; of other
 * servers, what `findLeftovers` tells. Nothing that runs and nothing that has data is removed, and no volume of another
 * server: its agent may only restart, and would make again what else was removed, but take such a volume for lost data.
 */
export function straysOf(deps: Deps): Strays {
  const { runtime, server, desired, observer, fleet, housekeeping, made, hasRules, identities, clock } = deps;

  const leftovers = async (signal: AbortSignal): Promise<Leftover[]> => {
    const found = await findLeftovers({ engine: runtime, clock, hasRules, identities }, signal);
    // What agents of earlier releases have cannot be told apart from what was left.
    return found.doubtful ? [] : found.leftovers.filter((one) => shortOwner(one.server) !== shortOwner(server));
  };

  /** Assignments of own containers that are not desired; none before the first complete set of this process. */
  const unwanted = (): string[] =>
    desired.confirmed && observer.reachable ? [...observer.assignments()].filter((id) => !desired.has(id)) : [];

  const ownVolumes = (): Set<string> => {
    const wanted = new Set<string>();
    for (const { spec } of desired.understood()) {
      if (spec.type === 'volume' || spec.type === 'copied_volume') wanted.add(spec.volume);
      if (spec.type === 'copied_volume') wanted.add(stagedName(spec.volume));
    }
    for (const id of observer.assignments())
      for (const { detail } of observer.of(id))
        for (const { type, source } of detail?.mounts ?? []) if (type === 'volume') wanted.add(source);
    return wanted;
  };

  /** Whether it is known which volumes of this server are wanted. */
  const isSetKnown = (): boolean =>
    desired.confirmed && observer.reachable && [...desired.all()].every(({ id }) => desired.unknown(id) === undefined);

  const isStray = async (owner: string): Promise<boolean> => {
    const { living, unknown } = await identities();
    const isLiving = [...living, server].some((one) => shortOwner(one) === shortOwner(owner));
    return !unknown && !isLiving;
  };

  const volumes = async (signal: AbortSignal): Promise<Omit<StrayVolume, 'bytes' | 'isOwn'>[]> => {
    const [all, { living, unknown }] = await Promise.all([runtime.volumes({}, signal), identities()]);
    const wanted = ownVolumes();
    return all.flatMap(({ name, labels: own }) => {
      const owner = own[labels.server];
      if (owner === undefined) return [];
      if (owner === server) return isSetKnown() && !wanted.has(name) ? [{ name, server }] : [];
      return unknown || living.has(owner) ? [] : [{ name, server: owner }];
    });
  };

  return {
    async containers(signal) {
      const own = unwanted().flatMap((id) =>
        observer.of(id).map(({ container }): StrayContainer => {
          const isRunning = container.state === 'running';
          return { id: container.id, server, isOwn: true, isRunning };
        }),
      );
      const left = (await leftovers(signal)).flatMap((one) =>
        one.containers.map((id): StrayContainer => {
          return { id, server: one.server, isOwn: false, isRunning: one.running.includes(id) };
        }),
      );
      return [...own, ...left];
    },

    async networks(signal) {
      const own = (await housekeeping.unneededNetworks(signal)).map((name): StrayNetwork => {
        return { name, server, isUsed: false };
      });
      const left = (await leftovers(signal)).flatMap((one): StrayNetwork[] => {
        const isUsed = one.running.length > 0;
        const named = one.networks.map((name) => ({ name, server: one.server, isUsed }));
        return one.rules ? [...named, { server: one.server, isUsed }] : named;
      });
      return [...own, ...left];
    },

    async volumes(signal) {
      const found = await volumes(signal);
      const measured: StrayVolume[] = [];
      for (const [at, one] of found.entries()) {
        const bytes =
          at < mostMeasured ? await runtime.volumeUsage(one.name, signal).catch(() => undefined) : undefined;
        signal.throwIfAborted();
        measured.push({ ...one, isOwn: one.server === server, bytes });
      }
      return measured;
    },

    async removeContainer(it, signal) {
      if (it.isOwn) {
        fleet.sync(unwanted());
        return undefined;
      }
      const now = await runtime.inspect(it.id, signal);
      if (now === undefined) return undefined;
      if (now.state !== 'exited' && now.state !== 'created' && now.state !== 'dead') return 'It runs again by now';
      if (!(await isStray(now.labels[labels.server] ?? server))) return 'The agent of its server runs here by now';
      for (const { source } of anonymousVolumes(now))
        if ((await runtime.volumeUsage(source, signal)) !== 0)
          return 'It has data in a volume without a name, which would go with it: look into it, then docker rm';
      await runtime.remove(it.id, signal);
      return undefined;
    },

    async removeNetwork({ name, server: owner }, signal) {
      if (owner !== server && !(await isStray(owner))) return 'The agent of its server runs here by now';
      if (name === undefined) {
        await removeRules(owner, clock, signal);
        return undefined;
      }
      if (owner === server) await housekeeping.removeNetwork(name, signal);
      else await runtime.removeNetwork(name, signal);
      const left = await runtime.networks({ [labels.server]: owner }, signal);
      return left.includes(name) ? 'A container uses it' : undefined;
    },

    async removeVolume({ name, server: owner }, signal) {
      if (owner !== server) return `Its server ${owner} may need it: if it is gone for good, docker volume rm ${name}`;
      const found = (await volumes(signal)).some((one) => one.name === name && one.server === owner);
      if (!found) return (await runtime.volume(name, signal)) === undefined ? undefined : 'It is needed by now';
      if ((await runtime.volumeUsage(name, signal)) !== 0) return 'It has data by now';
      await runtime.removeVolume(name, {}, signal);
      await made.removed(name); // otherwise a later volume of its name would count as lost
      return undefined;
    },
  };
}
