import { isIPv4 } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { identitiesHere } from '../machine/machine-identities.ts';
import type { PortBackend, PortProblem, PortPublisher } from './port-publisher.ts';
import { bridgeOf, reflect, routeLoopback } from './bridges.ts';
import { EngineRules } from './engine-rules.ts';
import { iptables, returnsAtItsEnd, standOf, type Firewall } from './firewall.ts';
import { forgetEnded } from './ended-connections.ts';
import { foreignPorts, type ForeignPort } from './foreign-rules.ts';
import { refusalAt } from './port-check.ts';
import { PortHolder } from './port-holder.ts';
import { anothersPort, closedPort, leftPort, unansweredPort } from './port-problems.ts';
import { removeStepRules } from './step-guard.ts';
import {
  chainsOf,
  guardChains,
  operatorsHostChain,
  ruleSet,
  shortOwner,
  type Chain,
  type Chains,
  type Family,
  type Operator,
  type Present,
} from './rules.ts';

/** Chain for the operator's rules on forwarded connections. The engine makes it. */
const operatorChain = 'DOCKER-USER';

/** Sources that cannot reach the instances on a bridge, each with the error that is the cause. */
type Closed = { whom: string; error: unknown }[];

type Ports = ReadonlyMap<number, readonly PortBackend[]>;

/**
 * Publishes ports by rules of the kernel: connections do not pass the agent, and go on while it does not run. Each
 * `apply` reads the kernel's rules and repairs those that were changed from outside.
 */
export class IptablesPublisher implements PortPublisher {
  readonly engineRules: EngineRules;
  readonly #chains: Chains;
  readonly #firewall: Firewall;
  readonly #firewall6: Firewall;
  #isUnguarded6 = false;
  /** Ports of the machine that instances may reach. */
  #admitted: readonly number[] = [];
  readonly #holder = new PortHolder();
  readonly #log: Logger;
  /** The sources that a bridge is closed to, by bridge that could not be opened completely. */
  #closed = new Map<string, Closed>();
  #notices: ReadonlyMap<number, string> = new Map();
  #installed: { wanted: string; rules: string } | undefined;
  /** The backends for which a connection through a port was answered, by port. */
  readonly #answered = new Map<number, Set<string>>();
  readonly #owner: string;
  readonly #takeOver: boolean;
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * @param owner id of the server: agents of one machine must differ in its first twelve letters and digits
   * @param deps.takeOver take over ports from the rules of an agent that does not run on this machine any more
   */
  constructor(owner: string, { clock, log, takeOver }: { clock: Clock; log: Logger; takeOver: boolean }) {
    this.engineRules = new EngineRules(clock);
    this.#chains = chainsOf(owner);
    this.#owner = shortOwner(owner);
    this.#takeOver = takeOver;
    this.#firewall = iptables(clock);
    this.#firewall6 = iptables(clock, 'ipv6');
    this.#log = log;
  }

  admit(ports: readonly number[]): void {
    this.#admitted = [...ports];
  }

  guard(signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => this.#guard(await this.#firewall.read(signal), { onlyMissing: true }, signal));
  }

  apply(ports: Ports, signal: AbortSignal): Promise<Map<number, PortProblem>> {
    return this.#inTurn(() => this.#apply(ports, signal));
  }

  /** Releases the ports. The kernel's rules stay for the next agent, unless `remove` is set. */
  async close(options: { remove: boolean }, signal: AbortSignal): Promise<void> {
    await this.#inTurn(async () => {
      await this.#holder[Symbol.asyncDispose]();
      if (!options.remove) return;
      this.#installed = undefined;
      await removeAll(this.#chains, this.#firewall, this.#firewall6, signal);
    });
  }

  async #apply(ports: Ports, signal: AbortSignal): Promise<Map<number, PortProblem>> {
    const problems = new Map<number, PortProblem>();
    const before = await this.#firewall.read(signal);
    this.engineRules.look(before);
    const foreign = foreignPorts(before, this.#owner).filter(({ port }) => ports.has(port));
    const living = foreign.length === 0 ? new Set<string>() : (await identitiesHere()).living;
    for (const port of ports.keys()) {
      const others = foreign.filter((one) => one.port === port);
      const problem = (await this.#holder.hold(port)) ?? (await this.#contested(others, living, signal));
      const agent = [...living].find((id) => others.some(({ owner }) => owner === shortOwner(id)));
      if (problem === undefined) continue;
      problems.set(port, agent === undefined || problem.code !== 'port_taken' ? problem : anothersPort(port, agent));
      await this.#holder.release(port);
    }
    const present = foreign.length === 0 ? before : await this.#firewall.read(signal);
    const held = [...ports].filter(([port]) => !problems.has(port));
    await this.#guard(present, { onlyMissing: false }, signal);
    if (held.length === 0) await this.#remove(present, signal);
    else await this.#install(held, present, signal);
    for (const port of this.#holder.ports) if (!ports.has(port)) await this.#holder.release(port);
    for (const [port, problem] of await this.#unanswered(held, signal)) problems.set(port, problem);
    this.#notices = new Map(held.flatMap(([port, backends]) => this.#noticeOf(port, backends)));
    return problems;
  }

  /**
   * Returns why a held port does not lead to its instances: rules of an agent that does not run here any more come
   * first. With `takeOver`, removes these rules instead.
   */
  async #contested(
    others: readonly ForeignPort[],
    living: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<PortProblem | undefined> {
    const here = new Set([...living].map(shortOwner));
    for (const other of others.filter(({ owner, shadows }) => shadows && !here.has(owner))) {
      const { port, owner } = other;
      if (!this.#takeOver) return leftPort(port, owner);
      this.#log.warn(
        { port, former: owner },
        'Took over a port from an agent that does not run on this machine any more',
      );
      await this.#firewall.takeOver(other, await this.#firewall.read(signal), signal);
    }
    return undefined;
  }

  async forgetEnded(addresses: readonly string[], signal: AbortSignal): Promise<void> {
    const own = addresses.filter(isIPv4);
    if (own.length > 0) await forgetEnded(own, signal);
  }

  /** Ports that lead to their instances, but not for all sources, each with what is missing. */
  get notices(): ReadonlyMap<number, string> {
    return this.#notices;
  }

  #noticeOf(port: number, backends: readonly PortBackend[]): [number, string][] {
    const closed = backends.flatMap(({ address }) => this.#closed.get(bridgeOf(address)?.name ?? '') ?? []);
    const whom = [...new Set(closed.map((one) => one.whom))].join(', nor ');
    return whom === '' ? [] : [[port, closedPort(port, whom)]];
  }

  /**
   * Blocks what instances must not reach; only for IPv4 if the programs for IPv6 are missing.
   *
   * @param onlyMissing what blocks something already stays as it is
   */
  async #guard(present: Present, { onlyMissing }: { onlyMissing: boolean }, signal: AbortSignal): Promise<void> {
    const how = { admitted: this.#admitted, onlyMissing };
    await guard(this.#chains, 'ipv4', { firewall: this.#firewall, present, ...how }, signal);
    try {
      const present6 = await this.#firewall6.read(signal);
      await guard(this.#chains, 'ipv6', { firewall: this.#firewall6, present: present6, ...how }, signal);
      this.#isUnguarded6 = false;
    } catch (error) {
      signal.throwIfAborted();
      if (!this.#isUnguarded6)
        this.#log.warn(
          { err: error },
          'Cannot set rules for IPv6, so over IPv6 instances may reach services of this machine: install ip6tables, or switch IPv6 off for the networks of the engine',
        );
      this.#isUnguarded6 = true;
    }
  }

  /** Tests ports with an instance that has not been tested yet. Returns the ports that do not answer. */
  async #unanswered(
    held: readonly [number, readonly PortBackend[]][],
    signal: AbortSignal,
  ): Promise<Map<number, PortProblem>> {
    for (const port of this.#answered.keys()) if (!held.some(([one]) => one === port)) this.#answered.delete(port);
    const problems = new Map<number, PortProblem>();
    await Promise.all(
      held.map(async ([port, backends]) => {
        const names = backends.map((one) => `${one.address}:${one.port}`);
        const known = this.#answered.get(port);
        const [first] = backends;
        if (first !== undefined && names.some((name) => known?.has(name) !== true)) {
          // Test by an address of the bridge: 127.0.0.1 needs settings that are not permitted on every machine.
          const address = bridgeOf(first.address)?.subnet.split('/')[0] ?? '127.0.0.1';
          const refusal = await refusalAt(address, port, signal);
          if (refusal !== undefined) {
            problems.set(port, unansweredPort(port, refusal));
            return;
          }
        }
        this.#answered.set(port, new Set(names));
      }),
    );
    return problems;
  }

  async #install(held: [number, readonly PortBackend[]][], present: Present, signal: AbortSignal): Promise<void> {
    const publications = held
      .toSorted(([a], [b]) => a - b)
      .map(([port, backends]) => ({
        port,
        backends: backends
          .map((backend) => ({ ...backend, bridge: bridgeOf(backend.address) }))
          .toSorted((a, b) => (a.address < b.address ? -1 : 1)),
      }));
    const used = publications.flatMap(({ backends }) => backends.flatMap(({ bridge }) => bridge?.name ?? []));
    // A bridge stays protected after its last instance: connections to it may still be open.
    const bridges = [...new Set([...used, ...protectedBy(this.#chains, present)])].toSorted();
    const operator = operatorIn(present);
    const chains = ruleSet(this.#chains, publications, bridges, operator);
    const wanted = JSON.stringify(chains);
    const stand = standOf(chains, present);
    if (this.#installed?.wanted !== wanted || this.#installed.rules !== stand.rules || !stand.reached) {
      // The rules were changed from outside: test all ports again.
      if (this.#installed?.wanted === wanted) this.#answered.clear();
      this.#installed = undefined;
      // The order matters. First protect the bridge from everything that is not an answer, then open it, and only then
      // lead ports to instances: a client repeats a dropped first packet only after a second.
      const closing = chains.filter(({ table }) => table === 'raw');
      if (!isSo(closing, present)) await this.#firewall.replace(closing, present, signal);
      await this.#open(used, signal);
      const rest = chains.filter(({ table }) => table !== 'raw');
      await this.#firewall.replace(rest, present, signal);
      const { rules } = standOf(chains, await this.#firewall.read(signal));
      this.#installed = { wanted, rules };
    } else await this.#open(used, signal);
  }

  async #remove(present: Present, signal: AbortSignal): Promise<void> {
    this.#installed = undefined;
    await removePublished(this.#chains, this.#firewall, present, signal);
  }

  /**
   * Lets connections from this machine, and from an instance to itself, reach the instances on these bridges. If the
   * machine does not permit that, all other connections still reach them.
   */
  async #open(bridges: readonly string[], signal: AbortSignal): Promise<void> {
    const closed = new Map<string, Closed>();
    for (const name of new Set(bridges)) {
      const to: Closed = [];
      await routeLoopback(name, true).catch((error: unknown) => to.push({ whom: '127.0.0.1 of the server', error }));
      await reflect(name, signal).catch((error: unknown) => to.push({ whom: 'the instance behind it', error }));
      signal.throwIfAborted();
      if (to.length === 0) continue;
      closed.set(name, to);
      if (this.#closed.has(name)) continue;
      const fields = { err: to[0]?.error, bridge: name, closedTo: to.map(({ whom }) => whom) };
      this.#log.warn(
        fields,
        'Some clients cannot reach published ports, as the agent has no right to set up the bridge: run it as root, outside of a container',
      );
    }
    this.#closed = closed;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

/** Removes all rules of an agent, also of an agent that does not run any more. */
export async function removeRules(owner: string, clock: Clock, signal: AbortSignal): Promise<void> {
  await removeAll(chainsOf(owner), iptables(clock), iptables(clock, 'ipv6'), signal);
}

async function removeAll(chains: Chains, firewall: Firewall, firewall6: Firewall, signal: AbortSignal): Promise<void> {
  const present = await firewall.read(signal);
  await removePublished(chains, firewall, present, signal);
  await firewall.remove(guardChains(chains, 'ipv4'), present, signal);
  await removeStepRules(chains, 'ipv4', firewall, signal);
  await removeStepRules(chains, 'ipv6', firewall6, signal);
  const present6 = await firewall6.read(signal).catch(() => undefined); // without its programs there are no rules
  if (present6 !== undefined) await firewall6.remove(guardChains(chains, 'ipv6'), present6, signal);
}

async function guard(
  chains: Chains,
  family: Family,
  {
    firewall,
    present,
    admitted,
    onlyMissing,
  }: { firewall: Firewall; present: Present; admitted: readonly number[]; onlyMissing: boolean },
  signal: AbortSignal,
): Promise<void> {
  const [forward, host] = [operatorChain, operatorsHostChain].map((it) => (has(present, it) ? it : undefined));
  const all = guardChains(chains, family, { forward, host }, admitted);
  const wanted = onlyMissing ? all.filter((one) => !blocks(one, present)) : all;
  if (!isSo(wanted, present)) await firewall.replace(wanted, present, signal);
}

/** Whether a chain has rules and is reached, whatever these are. */
function blocks(chain: Chain, present: Present): boolean {
  const { rules, reached } = standOf([chain], present);
  return reached && rules !== '';
}

function has(present: Present, chain: string): boolean {
  return present.get('filter')?.some((line) => line.startsWith(`:${chain} `)) === true;
}

function operatorIn(present: Present): Operator | undefined {
  if (!has(present, operatorChain)) return undefined;
  const lines = (present.get('filter') ?? []).filter((line) => line.startsWith(`-A ${operatorChain} `));
  return { chain: operatorChain, returns: returnsAtItsEnd(lines) };
}

async function removePublished(
  chains: Chains,
  firewall: Firewall,
  present: Present,
  signal: AbortSignal,
): Promise<void> {
  for (const name of protectedBy(chains, present)) await routeLoopback(name, false);
  await firewall.remove(ruleSet(chains, [], [], undefined), present, signal);
}

/** Returns the bridges in the kernel's rules. They are the record of all opened bridges, also of an earlier process. */
function protectedBy(chains: Chains, present: Present): string[] {
  const prefix = `-A ${chains.loop} `;
  return (present.get('raw') ?? [])
    .filter((line) => line.startsWith(prefix))
    .flatMap((line) => / -i (\S+) /.exec(line)?.[1] ?? []);
}

function isSo(chains: readonly Chain[], present: Present): boolean {
  const { rules, reached } = standOf(chains, present);
  return reached && rules === chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`)).join('\n');
}
