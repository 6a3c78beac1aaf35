import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';

/** A ready instance that the proxy may choose. */
export interface Upstream {
  workload: string;
  service: string;
  /** IPv4 address that this machine reaches. */
  address: string;
  /** Where it listens; the first is that of routes without a port. */
  ports: readonly number[];
}

/** The instances that a route leads to. */
export interface Target {
  workload: string;
  service: string;
  port?: number | undefined;
}

/**
 * For so long after an instance was withdrawn the proxy may still choose it: it asks again after 250 ms, or, if a client
 * went away while it asked, after a second.
 */
const lingerMs = 1_300;
/**
 * So long after the name of an instance was written, the proxy finds its address while the agent is away: it keeps what it
 * read of a file of names for 5 s.
 */
const knownMs = 5_500;

/** The ready instances of the server, for the proxy. */
export class Upstreams {
  readonly #clock: Clock;
  readonly #changed: () => void;
  readonly #offered: (assignment: string, upstream: Upstream) => void;
  readonly #isRouted: (upstream: Upstream) => boolean;
  /** With the monotonic time since when each is offered. */
  readonly #offers = new Map<string, { upstream: Upstream; since: number }>();
  readonly #leaving = new Set<string>();
  /** The monotonic time until which the proxy may still choose instances whose withdrawal has not ended. */
  readonly #lingers = new Map<string, number>();
  /** The monotonic time since when the proxy follows the offers of this process. */
  #followedSince = Number.NEGATIVE_INFINITY;

  constructor(deps: {
    clock: Clock;
    changed: () => void;
    offered: (assignment: string, upstream: Upstream) => void;
    isRouted: (upstream: Upstream) => boolean;
  }) {
    this.#offered = deps.offered;
    this.#clock = deps.clock;
    this.#changed = deps.changed;
    this.#isRouted = deps.isRouted;
  }

  /** The proxy asks for the instances of this process from now on: it may still know others. */
  followed(): void {
    this.#followedSince = this.#clock.monotonic();
  }

  /** The instance is ready; `undefined`: it is not. */
  offer(assignment: string, upstream: Upstream | undefined): void {
    this.#lingers.delete(assignment);
    this.#set(assignment, upstream);
  }

  /**
   * Resolves once the proxy chooses the instance no more, with whether it could be chosen. It stays until the proxy would
   * find those that remain also without the agent. A withdrawal that was interrupted can be called again.
   */
  async withdraw(assignment: string, signal: AbortSignal): Promise<boolean> {
    const before = this.#offers.get(assignment)?.upstream;
    const isRouted = before !== undefined && this.#isRouted(before);
    this.#leaving.add(assignment);
    try {
      const ms = isRouted ? this.#unknownMs(before) : 0;
      if (ms > 0) await wait(this.#clock, ms, signal);
    } finally {
      this.#leaving.delete(assignment);
    }
    this.#set(assignment, undefined);
    if (isRouted) this.#lingers.set(assignment, this.#clock.monotonic() + lingerMs);
    const until = this.#lingers.get(assignment) ?? (before === undefined ? this.#followedSince + lingerMs : 0);
    if (until <= this.#clock.monotonic()) return this.#lingers.delete(assignment);
    await wait(this.#clock, Math.max(0, until - this.#clock.monotonic()), signal);
    this.#lingers.delete(assignment);
    return true;
  }

  #set(assignment: string, upstream: Upstream | undefined): void {
    const before = this.#offers.get(assignment)?.upstream;
    if (JSON.stringify(before) === JSON.stringify(upstream)) return;
    if (upstream === undefined) this.#offers.delete(assignment);
    else {
      this.#offered(assignment, upstream);
      this.#offers.set(assignment, { upstream, since: this.#clock.monotonic() });
    }
    this.#changed();
  }

  #unknownMs({ workload, service }: Upstream): number {
    const times = [...this.#offers].flatMap(([assignment, { upstream, since }]) => {
      const remains = !this.#leaving.has(assignment);
      return remains && upstream.workload === workload && upstream.service === service ? [since] : [];
    });
    return Math.max(...times) + knownMs - this.#clock.monotonic();
  }

  of({ workload, service, port }: Target): { address: string; port: number }[] {
    return this.all.flatMap((one) => {
      const listens = port ?? one.ports[0];
      if (one.workload !== workload || one.service !== service || listens === undefined) return [];
      return [{ address: one.address, port: listens }];
    });
  }

  get all(): readonly Upstream[] {
    return [...this.#offers.values()].map(({ upstream }) => upstream);
  }
}
