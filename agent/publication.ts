import type { Logger } from 'pino';
import type { Clock } from '../agent-protocol/clock.ts';
import type { PortPolicy } from '../agent-protocol/port-policy.ts';
import { PortClaims } from './port-claims.ts';

/** Where a ready instance answers. */
export interface PortBackend {
  address: string;
  port: number;
}

/** Why a port does not lead to its instances. */
export interface PortProblem {
  /** `port_taken`: the port is somebody else's. `runtime_unavailable`: a later try may do better. */
  code: 'port_taken' | 'runtime_unavailable';
  message: string;
}

/** Makes ports of the server lead to instances. */
export interface PortPublisher {
  /**
   * All published ports, each with the instances that it leads to; one without any is held and refuses. Atomic per
   * call. Resolves with the ports that do not lead there, each with the reason; throws when nothing could be changed.
   */
  apply(
    ports: ReadonlyMap<number, readonly PortBackend[]>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<number, PortProblem>>;
  /** Of the last application: ports that lead to their instances, but not from everywhere, with what is missing. */
  readonly notices: ReadonlyMap<number, string>;
}

/** What one assignment brings to its port. */
export interface Offer {
  workload: string;
  project: string;
  /** Port of the server. */
  port: number;
  /** Where the instance answers, while it is ready. */
  backend: PortBackend | undefined;
}

const retryMs = 5_000;
/** Somebody may have changed what the publisher set up. */
const resyncMs = 30_000;

/**
 * Which published port leads to which ready instances; which workload has it is said by {@link PortClaims}. Nothing
 * changes before `release`, nor, if the desired set was lost, before `told`: until every instance was looked at, and it
 * is known who wants a port, the ports lead where the former process had them lead.
 * What was published stays so until its port is known to lead elsewhere.
 */
export class Publication {
  readonly #publisher: PortPublisher;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #changed: (assignments: readonly string[]) => void;
  readonly #claims: PortClaims;
  readonly #offers = new Map<string, Offer>();
  readonly #problems = new Map<string, PortProblem>();
  /** By assignment: the backend that its port leads to, as JSON. */
  #published = new Map<string, string>();
  /** Something may work out at another try. */
  #unfinished = false;
  #closing = new AbortController();
  #looked = false;
  #told: boolean;
  #stale = false;
  #applying: Promise<void> | undefined;
  #cancelRetry: () => void = () => undefined;

  private constructor(deps: Deps, claims: PortClaims) {
    this.#publisher = deps.publisher;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#changed = deps.changed;
    this.#claims = claims;
    // Claims without a desired set: the set was lost, and says nothing of who wants no port any more.
    this.#told = deps.isSetKnown || claims.ports.length === 0;
  }

  static async open(deps: Deps): Promise<Publication> {
    return new Publication(deps, await PortClaims.open(deps.path));
  }

  /** Which ports the control plane lets applications take. Kept on disk. */
  allow(policy: PortPolicy): void {
    if (this.#claims.allow(policy)) void this.#apply();
  }

  /** The assignment asks for a port, and has nothing to offer yet unless it said so before. */
  claim(assignment: string, wanted: Omit<Offer, 'backend'>): void {
    if (!this.#offers.has(assignment)) this.offer(assignment, { ...wanted, backend: undefined });
  }

  /** What an assignment has to offer now; repeating it is free. */
  offer(assignment: string, offer: Offer): void {
    if (JSON.stringify(this.#offers.get(assignment)) === JSON.stringify(offer)) return;
    this.#offers.set(assignment, offer);
    void this.#apply();
  }

  /** The assignment asks for no port (any more). */
  retract(assignment: string): void {
    if (this.#offers.delete(assignment)) void this.#apply();
  }

  /** Resolves when no port leads to the instance any more; says whether one did. */
  async withdraw(assignment: string): Promise<boolean> {
    const offer = this.#offers.get(assignment);
    if (offer?.backend === undefined) return false;
    this.#offers.set(assignment, { ...offer, backend: undefined });
    await this.#apply();
    return true;
  }

  /** Its port leads to the instance. */
  isPublished(assignment: string): boolean {
    return this.#published.has(assignment);
  }

  /** Why its port does not lead to it. */
  problem(assignment: string): PortProblem | undefined {
    return this.#problems.get(assignment);
  }

  /** What its port does less than it should, although it leads to it. */
  notice(assignment: string): string | undefined {
    const offer = this.#offers.get(assignment);
    return offer === undefined || !this.isPublished(assignment) ? undefined : this.#publisher.notices.get(offer.port);
  }

  /** Every instance was looked at: from here on the ports follow. Resolves when they do. */
  async release(): Promise<void> {
    if (this.#looked) return;
    this.#looked = true;
    await this.#apply();
  }

  /** The desired set is known, and every assignment of it has claimed its port. */
  told(): void {
    if (this.#told) return;
    this.#told = true;
    void this.#apply();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelRetry();
    await this.#applying;
  }

  /** Resolves when an application that began after the call is done. */
  async #apply(): Promise<void> {
    this.#stale = true;
    if (!this.#looked || !this.#told) return;
    this.#applying ??= this.#applyAll().finally(() => {
      this.#applying = undefined;
    });
    await this.#applying;
  }

  async #applyAll(): Promise<void> {
    while (this.#stale) {
      this.#stale = false;
      this.#cancelRetry();
      const before = this.#snapshot();
      // One view of the offers for all: what comes meanwhile makes another turn.
      const offers = new Map(this.#offers);
      try {
        await this.#applyOnce(offers);
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.#log.error({ err: error }, 'Ports cannot be published');
        this.#conclude(offers, () => notNow);
      }
      // Also without a port: what is forbidden stays so when somebody empties the rules.
      if (!this.#closing.signal.aborted)
        this.#cancelRetry = this.#clock.timer(this.#unfinished ? retryMs : resyncMs, () => {
          void this.#apply();
        });
      const after = this.#snapshot();
      const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
        (id) => before.get(id) !== after.get(id),
      );
      if (changed.length > 0) this.#changed(changed);
    }
  }

  async #applyOnce(offers: ReadonlyMap<string, Offer>): Promise<void> {
    await this.#claims.settle(offers);
    const ports = new Map<number, PortBackend[]>(this.#claims.ports.map((port) => [port, []]));
    for (const [id, offer] of offers)
      if (offer.backend !== undefined && this.#isOwner(id, offer)) ports.get(offer.port)?.push(offer.backend);
    const problems = await this.#publisher.apply(ports, this.#closing.signal);
    await this.#claims.tried(problems, offers);
    this.#conclude(offers, ({ port }) => problems.get(port));
  }

  #isOwner(assignment: string, offer: Offer): boolean {
    return this.#claims.has(offer) && this.#claims.refusal(assignment, offer) === undefined;
  }

  /** Says of every offer what came of it. `problemOf`: of one whose workload has the port. */
  #conclude(offers: ReadonlyMap<string, Offer>, problemOf: (offer: Offer) => PortProblem | undefined): void {
    const before = this.#published;
    this.#published = new Map();
    this.#problems.clear();
    this.#unfinished = false;
    for (const [id, offer] of offers) {
      const backend = offer.backend === undefined ? undefined : JSON.stringify(offer.backend);
      const refusal = this.#claims.refusal(id, offer);
      const problem = refusal ?? problemOf(offer);
      this.#unfinished ||= problem !== undefined && refusal === undefined;
      const stands = problem?.code === 'runtime_unavailable' && backend !== undefined && before.get(id) === backend;
      if (problem !== undefined && !stands) this.#problems.set(id, problem);
      else if (backend !== undefined) this.#published.set(id, backend);
    }
  }

  #snapshot(): Map<string, string> {
    return new Map([
      ...this.#published,
      ...[...this.#problems].map(([id, problem]): [string, string] => [id, JSON.stringify(problem)]),
    ]);
  }
}

const notNow: PortProblem = {
  code: 'runtime_unavailable',
  message: 'Ports of the server cannot be published: its agent log has the cause',
};

interface Deps {
  publisher: PortPublisher;
  /** File of the claims. */
  path: string;
  /** There is a desired set on disk. */
  isSetKnown: boolean;
  clock: Clock;
  log: Logger;
  /** Called with the assignments for which a port, or a problem with it, came or went. */
  changed: (assignments: readonly string[]) => void;
}
