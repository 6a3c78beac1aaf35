import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Clock } from '../agent-protocol/clock.ts';
import { writeAtomically } from './atomic-file.ts';

/** Where a ready instance answers. */
export interface PortBackend {
  address: string;
  port: number;
}

/** Makes ports of the server lead to instances. */
export interface PortPublisher {
  /**
   * All published ports, each with the instances that it leads to; one without any is held and refuses. Atomic per
   * call. Resolves with the ports that cannot be had, each with the reason; throws when nothing could be changed.
   */
  apply(ports: ReadonlyMap<number, readonly PortBackend[]>, signal: AbortSignal): Promise<ReadonlyMap<number, string>>;
}

/** What one assignment brings to its port. */
export interface Offer {
  workload: string;
  /** Port of the server. */
  port: number;
  /** Where the instance answers, while it is ready. */
  backend: PortBackend | undefined;
}

/** Which workload has which port, in the order in which they came. */
const Claims = z.array(z.tuple([z.int(), z.string()]));

const retryMs = 5_000;
/** Somebody may have changed what the publisher set up. */
const resyncMs = 30_000;

/**
 * Which published port leads to which ready instances. The first workload that asks for a port has it until it asks no
 * more, also across restarts of the agent. Nothing changes before `release`: until every instance was looked at, the
 * ports lead where the former process had them lead.
 */
export class Publication {
  readonly #publisher: PortPublisher;
  readonly #path: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #changed: (assignments: readonly string[]) => void;
  readonly #claims: Map<number, string>;
  readonly #offers = new Map<string, Offer>();
  readonly #problems = new Map<string, string>();
  #published = new Map<string, string>();
  #closing = new AbortController();
  #held = true;
  #stale = false;
  #applying: Promise<void> | undefined;
  #cancelRetry: () => void = () => undefined;

  private constructor(deps: Deps, claims: Map<number, string>) {
    this.#publisher = deps.publisher;
    this.#path = deps.path;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#changed = deps.changed;
    this.#claims = claims;
  }

  static async open(deps: Deps): Promise<Publication> {
    const text = await readFile(deps.path, 'utf8').catch(() => '[]');
    return new Publication(deps, new Map(parseClaims(text)));
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

  /** Why its port cannot be had. */
  problem(assignment: string): string | undefined {
    return this.#problems.get(assignment);
  }

  /** Every instance was looked at: from here on the ports follow. Resolves when they do. */
  async release(): Promise<void> {
    if (!this.#held) return;
    this.#held = false;
    await this.#apply();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelRetry();
    await this.#applying;
  }

  /** Resolves when an application that began after the call is done. */
  async #apply(): Promise<void> {
    this.#stale = true;
    if (this.#held) return;
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
      try {
        // One view of the offers for both: what comes meanwhile makes another turn.
        const offers = new Map(this.#offers);
        await this.#claim(offers);
        await this.#applyOnce(offers);
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.#log.error({ err: error }, 'Ports cannot be published');
        for (const [id] of this.#offers)
          this.#problems.set(id, 'Ports of the server cannot be published: its agent log has the cause');
        this.#published = new Map();
      }
      // Also without a port: what is forbidden stays so when somebody empties the rules.
      if (!this.#closing.signal.aborted)
        this.#cancelRetry = this.#clock.timer(this.#problems.size > 0 ? retryMs : resyncMs, () => {
          void this.#apply();
        });
      const after = this.#snapshot();
      const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
        (id) => before.get(id) !== after.get(id),
      );
      if (changed.length > 0) this.#changed(changed);
    }
  }

  /** Ports that nobody asks for are free; those that are free go to the first who asks. */
  async #claim(offers: ReadonlyMap<string, Offer>): Promise<void> {
    const wanted = new Set([...offers.values()].map(({ port, workload }) => `${port} ${workload}`));
    const before = JSON.stringify([...this.#claims]);
    for (const [port, workload] of this.#claims) if (!wanted.has(`${port} ${workload}`)) this.#claims.delete(port);
    for (const { port, workload } of offers.values()) if (!this.#claims.has(port)) this.#claims.set(port, workload);
    const after = JSON.stringify([...this.#claims]);
    if (after !== before) await writeAtomically(this.#path, after);
  }

  async #applyOnce(offers: ReadonlyMap<string, Offer>): Promise<void> {
    const ports = new Map<number, PortBackend[]>([...this.#claims.keys()].map((port) => [port, []]));
    for (const { port, workload, backend } of offers.values())
      if (backend !== undefined && this.#claims.get(port) === workload) ports.get(port)?.push(backend);
    const problems = await this.#publisher.apply(ports, this.#closing.signal);
    this.#problems.clear();
    this.#published = new Map();
    for (const [id, offer] of offers) {
      const owned = this.#claims.get(offer.port) === offer.workload;
      const problem = owned
        ? problems.get(offer.port)
        : `Port ${offer.port} of the server belongs to another application`;
      if (problem !== undefined) this.#problems.set(id, problem);
      else if (offer.backend !== undefined) this.#published.set(id, JSON.stringify(offer.backend));
    }
  }

  #snapshot(): Map<string, string> {
    return new Map([...this.#published, ...this.#problems]);
  }
}

interface Deps {
  publisher: PortPublisher;
  /** File of the claims. */
  path: string;
  clock: Clock;
  log: Logger;
  /** Called with the assignments for which a port, or a problem with it, came or went. */
  changed: (assignments: readonly string[]) => void;
}

function parseClaims(text: string): [number, string][] {
  try {
    return Claims.parse(JSON.parse(text));
  } catch {
    return [];
  }
}
