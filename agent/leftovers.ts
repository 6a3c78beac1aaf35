import type { Clock } from '../time/clock.ts';
import { identitiesHere } from './machine/machine-identities.ts';
import type { Identities } from './machine/machine-identities.ts';
import { iptables } from './ports/firewall.ts';
import { foreignPorts, ownersOfRules } from './ports/foreign-rules.ts';
import { removeRules } from './ports/iptables-publisher.ts';
import { shortOwner } from './ports/rules.ts';
import type { Present } from './ports/rules.ts';
import type { Belongings, ContainerRuntime } from './runtime/runtime.ts';

/** What an agent that does not run on this machine left on it; `server` is the id of its server. */
export interface Leftover extends Belongings {
  /** Ports that rules of the kernel lead to its containers. */
  ports: number[];
  /** True if it has any rules, also if they lead no ports. */
  rules: boolean;
}

export interface Found {
  leftovers: Leftover[];
  /** Agents of earlier releases run on this machine: the leftovers may be theirs. */
  doubtful: boolean;
}

const noRules: Present = new Map();

type Engine = Pick<ContainerRuntime, 'belongings' | 'remove' | 'removeNetwork' | 'removeImage'>;

/**
 * Finds what belongs to servers whose agents do not run on this machine. Changes nothing. `hasRules`: ports of its
 * containers are rules of the kernel, which is so by default. `identities`: the agents of the machine.
 */
export async function findLeftovers(
  deps: {
    engine: Pick<Engine, 'belongings'>;
    clock: Clock;
    hasRules?: boolean;
    identities?: () => Promise<Identities>;
  },
  signal: AbortSignal,
): Promise<Found> {
  const [all, present, identities] = await Promise.all([
    deps.engine.belongings(signal),
    deps.hasRules === false ? noRules : iptables(deps.clock).read(signal),
    (deps.identities ?? identitiesHere)(),
  ]);
  const ports = foreignPorts(present, '');
  const rules = ownersOfRules(present);
  const known = new Set(all.map(({ server }) => shortOwner(server)));
  // A server of which only rules are left is known by its short form only.
  const bare = [...rules].filter((owner) => !known.has(owner));
  const everybody = [
    ...all,
    ...bare.map((server) => ({ server, containers: [], running: [], networks: [], images: [] })),
  ];
  const living = new Set([...identities.living].map(shortOwner));
  const leftovers = everybody
    .filter(({ server }) => !living.has(shortOwner(server)))
    .map((one) => ({
      ...one,
      ports: ports.filter(({ owner }) => owner === shortOwner(one.server)).map(({ port }) => port),
      rules: rules.has(shortOwner(one.server)),
    }));
  return { leftovers, doubtful: identities.unknown };
}

/**
 * Removes a leftover: the rules first, so that no port leads to a container that is being removed. May be repeated
 * after a failure. Whatever is still in use, such as an image, stays.
 */
export async function removeLeftover(
  { engine, clock }: { engine: Engine; clock: Clock },
  leftover: Leftover,
  signal: AbortSignal,
): Promise<void> {
  if (leftover.rules) await removeRules(leftover.server, clock, signal);
  for (const id of leftover.containers) await engine.remove(id, signal);
  for (const name of leftover.networks) await engine.removeNetwork(name, signal);
  for (const id of leftover.images) await engine.removeImage(id, signal);
}
