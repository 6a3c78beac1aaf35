import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';
import { pace, Paces } from './pace.ts';
import type { Paced } from './pace.ts';
import { Places } from './places.ts';

/** Where a connection comes from. */
export interface Sender {
  address: string;
  /** Its server, if it showed a good pass of that server. */
  server: string | undefined;
}

/** The place of a connection among those whose agents are not welcomed yet. */
export interface Place {
  /** Whether its handshake may begin now. */
  begin(): Paced;
  /** Gives it back; at most once. */
  free(): void;
}

/**
 * Shares the places and the handshakes among connections. Agents that showed a pass have places of their own, so that
 * any number of strangers keeps none of them out. No address can take all places of strangers, no server all of agents.
 */
export class Admission {
  readonly #strangers: Class;
  readonly #known: Class;

  constructor(clock: Clock) {
    this.#strangers = new Class(clock, limits.admission.strangers);
    this.#known = new Class(clock, limits.admission.known);
  }

  hasRoom(sender: Sender): boolean {
    return this.#classOf(sender).hasRoom(sender.server ?? sender.address);
  }

  take(sender: Sender): Place {
    return this.#classOf(sender).take(sender.server ?? sender.address);
  }

  #classOf({ server }: Sender): Class {
    return server === undefined ? this.#strangers : this.#known;
  }
}

interface Bounds {
  places: number;
  placesEach: number;
  perSecond: number;
  perSecondEach: number;
}

/** Places and handshakes of one class of senders, for all together and for each. */
class Class {
  readonly #places: Places;
  readonly #paceOfAll: () => Paced;
  readonly #paces: Paces;

  constructor(clock: Clock, bounds: Bounds) {
    this.#places = new Places(bounds);
    this.#paceOfAll = pace(clock, bounds.perSecond);
    this.#paces = new Paces(clock, bounds.perSecondEach);
  }

  hasRoom(name: string): boolean {
    return this.#places.hasRoom(name);
  }

  take(name: string): Place {
    return {
      begin: () => {
        const own = this.#paces.begin(name);
        return own.admitted ? this.#paceOfAll() : own;
      },
      free: this.#places.take(name),
    };
  }
}
