import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { PortPolicy, refusedPort } from '../../agent-protocol/port-policy.ts';
import { writeAtomically } from '../disk/atomic-file.ts';
import type { PortBackend, PortProblem } from './port-publisher.ts';

/** A port that an assignment asks for, and the backend that it offers. */
export interface Offer {
  workload: string;
  project: string;
  /** Port of the server. */
  port: number;
  /** Where the instance answers; `undefined` while it is not ready. */
  backend: PortBackend | undefined;
}

/** An offer and the assignment that makes it. */
export type AssignmentOffer = Offer & { assignment: string };

/** One port of the server and the workload that has it. Claims are in the order in which they were made. */
const Claim = z.object({
  port: z.int(),
  workload: z.string(),
  /** The agent has got the port from the machine. A claim that is not held yet ends if the port cannot be held. */
  held: z.boolean(),
});
type Claim = z.infer<typeof Claim>;

/** An instance that did not get its port and will not get it later. */
const Refusal = z.object({ assignment: z.string(), port: z.int(), message: z.string() });
type Refusal = z.infer<typeof Refusal>;

const State = z.object({
  v: z.literal(2),
  claims: z.array(Claim),
  refused: z.array(Refusal),
  policy: PortPolicy.optional(),
});
type State = z.infer<typeof State>;

/** The format of earlier releases, without a version. */
const Earlier = z.array(z.tuple([z.int(), z.string()]));

type Offers = readonly AssignmentOffer[];

/**
 * Which workload has which port of the server, on disk. The first workload that asks for a port has it until it stops
 * asking. An instance whose port belongs to another workload is refused for good. No instance waits for a port to
 * become free: a workload that releases its port, even for a restart, would then lose it. A new instance may ask again.
 */
export class PortClaims {
  readonly #path: string;
  #state: State;
  /** The state in memory differs from the state on disk. */
  #unwritten = false;

  private constructor(path: string, state: State) {
    this.#path = path;
    this.#state = state;
  }

  /** A missing or damaged file counts as a file without claims. */
  static async open(path: string): Promise<PortClaims> {
    const text = await readFile(path, 'utf8').catch(() => '[]');
    return new PortClaims(path, parse(text));
  }

  /** Replaces the policy of the control plane. It takes effect at the next `settle`. Returns true if it changed. */
  allow(policy: PortPolicy): boolean {
    if (JSON.stringify(this.#state.policy) === JSON.stringify(policy)) return false;
    this.#state = { ...this.#state, policy };
    this.#unwritten = true;
    return true;
  }

  /**
   * Releases ports that no offer asks for any more, and gives each free port to the first offer that asks for it.
   * Resolves when the claims are on disk.
   */
  async settle(offers: Offers): Promise<void> {
    const refused = this.#state.refused.filter((one) => offers.some((offer) => isRefusalOf(one, offer)));
    const lost = new Set(offers.filter((offer) => refused.some((one) => isRefusalOf(one, offer))));
    const claims = this.#state.claims.filter((claim) =>
      offers.some((offer) => isOf(claim, offer) && !lost.has(offer) && !this.#isForbidden(offer, claim.held)),
    );
    for (const offer of offers) {
      const { assignment, port, workload } = offer;
      if (lost.has(offer)) continue;
      const claim = claims.find((one) => one.port === port);
      if (claim?.workload === workload || this.#isForbidden(offer, false)) continue;
      if (claim === undefined) claims.push({ port, workload, held: false });
      else refused.push({ assignment, port, message: othersPort(port) });
    }
    await this.#become({ ...this.#state, claims, refused });
  }

  /** Records the result of the attempt to hold the ports. Resolves when it is on disk. */
  async tried(problems: ReadonlyMap<number, PortProblem>, offers: Offers): Promise<void> {
    const refused = [...this.#state.refused];
    const claims = this.#state.claims.flatMap((claim) => {
      const problem = problems.get(claim.port);
      if (claim.held || problem?.code === 'runtime_unavailable') return [claim];
      if (problem === undefined) return [{ ...claim, held: true }];
      for (const offer of offers)
        if (isOf(claim, offer))
          refused.push({ assignment: offer.assignment, port: claim.port, message: problem.message });
      return [];
    });
    await this.#become({ ...this.#state, claims, refused });
  }

  /** The ports that are claimed. */
  get ports(): number[] {
    return this.#state.claims.map(({ port }) => port);
  }

  has({ port, workload }: Offer): boolean {
    return this.#state.claims.some((one) => one.port === port && one.workload === workload);
  }

  /** Returns why this instance does not get its port and what to do; `undefined` if it gets the port. */
  refusal(offer: AssignmentOffer): PortProblem | undefined {
    const message =
      this.#state.refused.find((one) => isRefusalOf(one, offer))?.message ??
      (this.has(offer) ? undefined : this.#forbidden(offer, false));
    return message === undefined ? undefined : { code: 'port_taken', message };
  }

  /** Why a project may not have the port by the policy, or as a workload has it; `undefined`: it may. */
  refusalOf({ port, project, held }: Pick<Offer, 'port' | 'project'> & { held: boolean }): string | undefined {
    return this.ports.includes(port) ? othersPort(port) : this.#forbidden({ port, project }, held);
  }

  #isForbidden(offer: Offer, held: boolean): boolean {
    return this.#forbidden(offer, held) !== undefined;
  }

  #forbidden({ port, project }: Pick<Offer, 'port' | 'project'>, held: boolean): string | undefined {
    const { policy } = this.#state;
    return policy === undefined ? undefined : refusedPort(policy, { port, project, held });
  }

  /** Changes the state on disk, then in memory. */
  async #become(next: State): Promise<void> {
    if (!this.#unwritten && JSON.stringify(next) === JSON.stringify(this.#state)) return;
    const { policy } = this.#state;
    await writeAtomically(this.#path, JSON.stringify(next));
    // The control plane may have changed the policy meanwhile.
    this.#unwritten = this.#state.policy !== policy;
    this.#state = { ...next, ...(this.#state.policy !== undefined && { policy: this.#state.policy }) };
  }
}

function othersPort(port: number): string {
  return `Port ${port} of the server belongs to another application: choose another exposed_port, or stop that application, then deploy again`;
}

function isRefusalOf(refusal: Refusal, { assignment, port }: AssignmentOffer): boolean {
  return refusal.assignment === assignment && refusal.port === port;
}

function isOf(claim: Claim, { port, workload }: Offer): boolean {
  return claim.port === port && claim.workload === workload;
}

function parse(text: string): State {
  const none: State = { v: 2, claims: [], refused: [] };
  try {
    const json: unknown = JSON.parse(text);
    if (!Array.isArray(json)) return State.parse(json);
    const claims = Earlier.parse(json).map(([port, workload]) => ({ port, workload, held: true }));
    return { ...none, claims };
  } catch {
    return none;
  }
}
