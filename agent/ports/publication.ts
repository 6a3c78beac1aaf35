import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { PortPolicy } from '../../agent-protocol/port-policy.ts';
import type { EngineRules } from './engine-rules.ts';
import { PortClaims, type AssignmentOffer, type Offer } from './port-claims.ts';
import type { PortBackend, PortProblem, PortPublisher } from './port-publisher.ts';

const retryMs = 5_000;
/** Interval of repetition: the rules of the publisher may have been changed from outside. */
const resyncMs = 5_000;

/**
 * Decides which ready instances each published port leads to; {@link PortClaims} decides which workload has the port.
 * Nothing changes before `release`, nor, if the desired set was lost, before `desiredSetArrived`: until every instance
 * was inspected and it is known which assignments ask for a port, the ports lead where the former process led them.
 * A published instance counts as published until its port is known to lead elsewhere.
 */
export class Publication {
  readonly #publisher: PortPublisher;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #changed: (assignments: readonly string[]) => void;
  readonly #claims: PortClaims;
  readonly #offers = new Map<string, readonly Offer[]>();
  /** The first problem of the ports of each assignment. */
  readonly #problems = new Map<string, PortProblem>();
  /** The backend that a port leads to, as JSON, by assignment and port. */
  #published = new Map<string, string>();
  /** Another try may solve a problem. */
  #unfinished = false;
  #closing = new AbortController();
  #looked = false;
  #isSetKnown: boolean;
  #stale = false;
  #applying: Promise<void> | undefined;
  #guarding: Promise<void> | undefined;
  #cancelRetry: () => void = () => undefined;
  #cancelGuard: () => void = () => undefined;

  private constructor(deps: Deps, claims: PortClaims) {
    this.#publisher = deps.publisher;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#changed = deps.changed;
    this.#claims = claims;
    // Claims without a desired set: the set was lost, and it is not known which workloads still want a port.
    this.#isSetKnown = deps.isSetKnown || claims.ports.length === 0;
  }

  static async open(deps: Deps): Promise<Publication> {
    const opened = new Publication(deps, await PortClaims.open(deps.path));
    // instances that the engine started by itself run already
    await opened.#guard();
    return opened;
  }

  /** Sets the ports that applications may take. Kept on disk. Returns true if they changed. */
  allow(policy: PortPolicy): boolean {
    const isChanged = this.#claims.allow(policy);
    if (isChanged) void this.#apply();
    return isChanged;
  }

  /** Lets instances reach these ports of the machine itself. */
  admit(ports: readonly number[]): void {
    this.#publisher.admit(ports);
    void this.#apply();
  }

  /** The assignment asks for these ports. Earlier offers of them stay; the others offer no backend yet. */
  claim(assignment: string, ...wanted: readonly Omit<Offer, 'backend'>[]): void {
    const before = this.#offersOf(assignment);
    const offers = wanted.map((one) => before.find(({ port }) => port === one.port) ?? { ...one, backend: undefined });
    this.offer(assignment, ...offers);
  }

  /** Sets the offers of an assignment, one for each port that it asks for; none gives up its ports. Unchanged offers cost nothing. */
  offer(assignment: string, ...offers: readonly Offer[]): void {
    if (JSON.stringify(this.#offersOf(assignment)) === JSON.stringify(offers)) return;
    if (offers.length === 0) this.#offers.delete(assignment);
    else this.#offers.set(assignment, offers);
    void this.#apply();
  }

  /** Resolves when no port leads to the instance any more, with whether it had offered a backend. */
  async withdraw(assignment: string): Promise<boolean> {
    const offers = this.#offersOf(assignment);
    if (offers.every(({ backend }) => backend === undefined)) return false;
    this.#offers.set(
      assignment,
      offers.map((offer) => ({ ...offer, backend: undefined })),
    );
    await this.#apply();
    return true;
  }

  /**
   * An instance with these addresses is about to end. What is known of the connections that it had is forgotten before, as
   * the engine would forget it with connections of other instances. A failure leaves that to the engine.
   */
  async ends(addresses: readonly string[], signal: AbortSignal): Promise<void> {
    if (this.#claims.ports.length === 0) return;
    try {
      await this.#publisher.forgetEnded(addresses, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#log.warn(
        { err: error },
        'Cannot forget connections that have ended: a client that begins a new one at that moment may get no answer',
      );
    }
  }

  /** True if it offers a backend for each of its ports, and each port leads there. */
  isPublished(assignment: string): boolean {
    const offers = this.#offersOf(assignment);
    return offers.length > 0 && offers.every(({ port }) => this.#published.has(keyOf(assignment, port)));
  }

  /** Returns why one of its ports does not lead to the instance; `undefined` if there is no problem. */
  problem(assignment: string): PortProblem | undefined {
    return this.#problems.get(assignment);
  }

  /** Why what the agent itself listens at, or is to, must not be that port; `undefined`: it may. */
  refusalOf(wanted: { port: number; project: string; held: boolean }): string | undefined {
    return this.#claims.refusalOf(wanted);
  }

  /** Whether an instance asks for a port of the server, and the first problem of those that do. */
  stand(port: number): { isWanted: boolean; problem: PortProblem | undefined } {
    const asking = [...this.#offers].filter(([, offers]) => offers.some((one) => one.port === port));
    const problems = asking.flatMap(([id]) => (this.#published.has(keyOf(id, port)) ? [] : (this.problem(id) ?? [])));
    return { isWanted: asking.length > 0, problem: problems[0] };
  }

  /** Returns what is missing although the ports lead to the instance, such as a source that it does not answer. */
  notice(assignment: string): string | undefined {
    if (!this.isPublished(assignment)) return undefined;
    const notices = this.#offersOf(assignment).map(({ port }) => this.#publisher.notices.get(port));
    return notices.find((notice) => notice !== undefined);
  }

  /** The rules that the container engine needs for itself; `undefined`: it needs none that the agent knows of. */
  get engineRules(): EngineRules | undefined {
    return this.#publisher.engineRules;
  }

  /** Every instance was inspected: from now on the ports follow the offers. Resolves when they do. */
  async release(): Promise<void> {
    if (this.#looked) return;
    this.#looked = true;
    await this.#apply();
  }

  /** The ports follow the offers; before, they lead where the former process led them. */
  get isReleased(): boolean {
    return this.#looked && this.#isSetKnown;
  }

  /** The desired set is known, and each of its assignments has claimed its port. */
  desiredSetArrived(): void {
    if (this.#isSetKnown) return;
    this.#isSetKnown = true;
    void this.#apply();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelRetry();
    this.#cancelGuard();
    await Promise.all([this.#applying, this.#guarding]);
  }

  #offersOf(assignment: string): readonly Offer[] {
    return this.#offers.get(assignment) ?? [];
  }

  /** Blocks what instances must not reach, again and again until ports follow the offers: from then on `apply` does it. */
  async #guard(): Promise<void> {
    if (this.isReleased) return;
    this.#guarding = this.#publisher.guard(this.#closing.signal).catch((error: unknown) => {
      if (this.#closing.signal.aborted) return;
      const what = 'Cannot block what instances must not reach, as addresses at which clouds give credentials';
      this.#log.error({ err: error }, `${what}: the agent tries again`);
    });
    await this.#guarding;
    if (this.#closing.signal.aborted) return;
    this.#cancelGuard = this.#clock.timer(resyncMs, () => void this.#guard());
  }

  /** Resolves when an `apply` that began after the call has ended. */
  async #apply(): Promise<void> {
    this.#stale = true;
    if (!this.#looked || !this.#isSetKnown) return;
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
      // All steps use the same copy of the offers: a change meanwhile causes another round.
      const offers = [...this.#offers].flatMap(([assignment, wanted]) =>
        wanted.map((offer) => ({ assignment, ...offer })),
      );
      try {
        await this.#applyOnce(offers);
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.#log.error({ err: error }, 'Cannot publish ports: the agent tries again');
        this.#conclude(offers, () => notNow);
      }
      // Repeat also without a port: the rules that block instances must be restored if they were removed from outside.
      if (!this.#closing.signal.aborted)
        this.#cancelRetry = this.#clock.timer(this.#unfinished ? retryMs : resyncMs, () => {
          void this.#apply();
        });
      const after = this.#snapshot();
      const keys = [...new Set([...before.keys(), ...after.keys()])].filter(
        (key) => before.get(key) !== after.get(key),
      );
      const changed = new Set(keys.map(assignmentOf));
      if (changed.size > 0) this.#changed([...changed]);
    }
  }

  async #applyOnce(offers: readonly AssignmentOffer[]): Promise<void> {
    await this.#claims.settle(offers);
    const ports = new Map<number, PortBackend[]>(this.#claims.ports.map((port) => [port, []]));
    for (const offer of offers)
      if (offer.backend !== undefined && this.#isOwner(offer)) ports.get(offer.port)?.push(offer.backend);
    const problems = await this.#publisher.apply(ports, this.#closing.signal);
    await this.#claims.tried(problems, offers);
    this.#conclude(offers, ({ port }) => problems.get(port));
  }

  #isOwner(offer: AssignmentOffer): boolean {
    return this.#claims.has(offer) && this.#claims.refusal(offer) === undefined;
  }

  /**
   * Records for every offer whether it is published or has a problem. `problemOf`: for offers that were not refused.
   */
  #conclude(offers: readonly AssignmentOffer[], problemOf: (offer: Offer) => PortProblem | undefined): void {
    const before = this.#published;
    this.#published = new Map();
    this.#problems.clear();
    this.#unfinished = false;
    for (const offer of offers) {
      const key = keyOf(offer.assignment, offer.port);
      const backend = offer.backend === undefined ? undefined : JSON.stringify(offer.backend);
      const refusal = this.#claims.refusal(offer);
      const problem = refusal ?? problemOf(offer);
      this.#unfinished ||= problem !== undefined && refusal === undefined;
      const stands = problem?.code === 'runtime_unavailable' && backend !== undefined && before.get(key) === backend;
      if (problem !== undefined && !stands) {
        if (!this.#problems.has(offer.assignment)) this.#problems.set(offer.assignment, problem);
      } else if (backend !== undefined) this.#published.set(key, backend);
    }
  }

  #snapshot(): Map<string, string> {
    return new Map([
      ...this.#published,
      ...[...this.#problems].map(([id, problem]): [string, string] => [keyOf(id, 0), JSON.stringify(problem)]),
    ]);
  }
}

function keyOf(assignment: string, port: number): string {
  return `${assignment} ${port}`;
}

function assignmentOf(key: string): string {
  return key.slice(0, key.lastIndexOf(' '));
}

const notNow: PortProblem = {
  code: 'runtime_unavailable',
  message: 'The agent cannot publish ports of the server and tries again: its log has the cause',
};

interface Deps {
  publisher: PortPublisher;
  /** File of the claims. */
  path: string;
  /** True if there is a desired set on disk. */
  isSetKnown: boolean;
  clock: Clock;
  log: Logger;
  /** Called with the assignments whose published backend or problem changed. */
  changed: (assignments: readonly string[]) => void;
}
