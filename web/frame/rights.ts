import { signal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { list } from '../api.ts';
import type { Login } from '../api.ts';
import type { User } from '../model.ts';
import { pauseAfter } from './pause-after.ts';
import { keptObjects } from './store.ts';

/** Roles from the least to the most; `global`: an admin of the tenant, who may do all that a role may. */
const ranks = ['viewer', 'member', 'admin', 'owner', 'global'] as const;
export type Rank = (typeof ranks)[number];

interface Known {
  readonly rank: Signal<Rank | undefined>;
  /** The round in which it was asked for last. */
  round: number;
}

/**
 * What the reader may do, as far as a role says it. It only spares a request that would be refused: the server decides, and
 * its refusal is shown where the verb is.
 */
export class Rights {
  readonly #login: Login;
  readonly #me: Signal<User | undefined>;
  readonly #ranks = new Map<string, Known>();
  /** Counts how often all roles had to be asked for again. */
  readonly #round = signal(1);

  constructor(login: Login, me: Signal<User | undefined>) {
    this.#login = login;
    this.#me = me;
  }

  /** The reader's rank in a project; `undefined` until it is known. */
  rankIn(projectId: string): Rank | undefined {
    const me = this.#me.value;
    if (me === undefined) return undefined;
    if (me.role !== 'user') return 'global';
    const round = this.#round.value;
    let known = this.#ranks.get(projectId);
    if (known === undefined) {
      known = { rank: signal<Rank | undefined>(undefined), round: 0 };
      // a page may ask for all projects that there are: one that is forgotten while it does would be read again without end
      const [oldest] = this.#ranks.keys();
      if (this.#ranks.size >= keptObjects && oldest !== undefined) this.#ranks.delete(oldest);
      this.#ranks.set(projectId, known);
    }
    if (known.round !== round) {
      known.round = round;
      void this.#read(projectId, me, known, 0);
    }
    return known.rank.value;
  }

  /** Asks again for each role that is shown, which counts until the answer: the reader may have another one now. */
  askAgain(): void {
    this.#round.value += 1;
  }

  async #read(projectId: string, me: User, known: Known, failures: number): Promise<void> {
    const { round } = known;
    const isWaitedFor = (): boolean => known.round === round && this.#ranks.get(projectId) === known;
    try {
      const members = await list(this.#login, '/api/v1/projects/{id}/members', 500, {
        path: { id: projectId },
        query: { q: me.email },
      });
      if (isWaitedFor()) known.rank.value = members.find(({ user_id }) => user_id === me.id)?.role;
    } catch (error) {
      if (!isWaitedFor()) return;
      const pauseMs = pauseAfter(error, failures);
      if (pauseMs === undefined) known.rank.value = undefined;
      else setTimeout(() => isWaitedFor() && void this.#read(projectId, me, known, failures + 1), pauseMs);
    }
  }
}

/** Why a rank is too low for what needs another one; `undefined` if it is not, or if only the server knows. */
export function whyBelow(rank: Rank | undefined, needed: Rank): string | undefined {
  if (rank === undefined || ranks.indexOf(rank) >= ranks.indexOf(needed)) return undefined;
  const who = needed === 'global' ? 'an admin of the tenant' : `the role ${needed} in this project`;
  return `This needs ${who}: you have the role ${rank}`;
}
