import type { Logger } from 'pino';
import type { Clock } from '../../agent-protocol/clock.ts';
import type { PortBackend, PortPublisher } from '../publication.ts';
import { bridgeOf, reflect, routeLoopback } from './bridges.ts';
import { iptables, standOf, type Present } from './firewall.ts';
import { PortHolder } from './port-holder.ts';
import { chainsOf, guardChain, ruleSet, type Chain, type Chains } from './rules.ts';

/** Where operators put what they forbid to forwarded connections; the engine makes it. */
const operatorChain = 'DOCKER-USER';

type Ports = ReadonlyMap<number, readonly PortBackend[]>;

/**
 * Publishes ports by rules of the kernel: connections flow without the agent, also while it is away. What the kernel
 * holds is read at every application, and made right where somebody changed it.
 */
export class IptablesPublisher implements PortPublisher {
  readonly #chains: Chains;
  readonly #firewall;
  readonly #holder = new PortHolder();
  readonly #log: Logger;
  /** Bridges of which it was told that they could not be opened. */
  #shut = new Set<string>();
  #installed: { wanted: string; rules: string } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /** @param owner id of the server: agents of one machine must differ in its first twelve letters and digits. */
  constructor(owner: string, { clock, log }: { clock: Clock; log: Logger }) {
    this.#chains = chainsOf(owner);
    this.#firewall = iptables(clock);
    this.#log = log;
  }

  apply(ports: Ports, signal: AbortSignal): Promise<Map<number, string>> {
    return this.#inTurn(() => this.#apply(ports, signal));
  }

  /** Lets the ports go. The kernel's rules stay, for the next agent, unless they are to be removed. */
  async close(options: { remove: boolean }, signal: AbortSignal): Promise<void> {
    await this.#inTurn(async () => {
      await this.#holder[Symbol.asyncDispose]();
      if (!options.remove) return;
      const present = await this.#firewall.read(signal);
      await this.#remove(present, signal);
      await this.#firewall.remove([guardChain(this.#chains)], present, signal);
    });
  }

  async #apply(ports: Ports, signal: AbortSignal): Promise<Map<number, string>> {
    const problems = new Map<number, string>();
    for (const port of ports.keys()) {
      const problem = await this.#holder.hold(port);
      if (problem !== undefined) problems.set(port, problem);
    }
    const held = [...ports].filter(([port]) => !problems.has(port));
    const present = await this.#firewall.read(signal);
    const guard = [guardChain(this.#chains)];
    if (!isSo(guard, present)) await this.#firewall.replace(guard, present, signal);
    if (held.length === 0) await this.#remove(present, signal);
    else await this.#install(held, present, signal);
    for (const port of this.#holder.ports) if (!ports.has(port)) await this.#holder.release(port);
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
    const bridges = [...new Set([...used, ...this.#protected(present)])].toSorted();
    const operator = present.get('filter')?.some((line) => line.startsWith(`:${operatorChain} `));
    const chains = ruleSet(this.#chains, publications, bridges, operator === true ? operatorChain : undefined);
    const wanted = JSON.stringify(chains);
    const stand = standOf(chains, present);
    if (this.#installed?.wanted !== wanted || this.#installed.rules !== stand.rules || !stand.reached) {
      this.#installed = undefined;
      // A port leads to an instance only when the way there is open: a first packet that is dropped comes again after a
      // second. And a bridge is open only when it is closed to what is not an answer.
      const closing = chains.filter(({ table }) => table === 'raw');
      if (!isSo(closing, present)) await this.#firewall.replace(closing, present, signal);
      await this.#open(used);
      const rest = chains.filter(({ table }) => table !== 'raw');
      await this.#firewall.replace(rest, present, signal);
      const { rules } = standOf(chains, await this.#firewall.read(signal));
      this.#installed = { wanted, rules };
    } else await this.#open(used);
  }

  async #remove(present: Present, signal: AbortSignal): Promise<void> {
    this.#installed = undefined;
    for (const name of this.#protected(present)) await routeLoopback(name, false);
    await this.#firewall.remove(this.#allChains(), present, signal);
  }

  /** The bridges that the kernel's rules name: they are the record of what was opened, also by an earlier agent. */
  #protected(present: Present): string[] {
    const prefix = `-A ${this.#chains.loop} `;
    return (present.get('raw') ?? [])
      .filter((line) => line.startsWith(prefix))
      .flatMap((line) => / -i (\S+) /.exec(line)?.[1] ?? []);
  }

  /**
   * Lets connections from this machine, and from an instance to itself, find to the instances on these bridges. Where
   * the machine does not let us, all others still find there.
   */
  async #open(bridges: readonly string[]): Promise<void> {
    const shut = new Set<string>();
    for (const name of new Set(bridges)) {
      try {
        await routeLoopback(name, true);
        await reflect(name);
      } catch (error) {
        shut.add(name);
        if (!this.#shut.has(name))
          this.#log.warn(
            { err: error, bridge: name },
            'Published ports do not answer to this machine itself, nor to the instance behind them: the agent may not set up the bridge',
          );
      }
    }
    this.#shut = shut;
  }

  #allChains(): Chain[] {
    return ruleSet(this.#chains, [], [], undefined);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

function isSo(chains: readonly Chain[], present: Present): boolean {
  const { rules, reached } = standOf(chains, present);
  return reached && rules === chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`)).join('\n');
}
