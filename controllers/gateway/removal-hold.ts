import { z } from 'zod';
import type { Report } from '../../agent-protocol/control-session.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, Mirror, TenantView } from '../../store/mirror.ts';
import type { Guard, KeyRange, Store } from '../../store/store.ts';
import { limits } from './limits.ts';

/**
 * A store that was restored from a backup does not know what was made since, so a snapshot from it may remove most of a
 * server's workloads. Such removals are held: the agent keeps what the store does not know until an operator confirms.
 */
const Hold = z.object({
  /** Assignments that the agent keeps. */
  held: z.int(),
  confirmed: z.boolean(),
});
type Hold = z.infer<typeof Hold>;

interface Place {
  tenant: string;
  server: string;
}

export interface RemovalHoldOptions extends Place {
  store: Store;
  mirror: Pick<Mirror, 'key'>;
  view: Pick<TenantView, 'get'>;
}

/** Finds out in one session what the agent is to keep. */
export class RemovalHold {
  #o: RemovalHoldOptions;
  #reported: string[] = [];
  #rewound = false;
  #isAsking = false;

  constructor(options: RemovalHoldOptions) {
    this.#o = options;
  }

  /** Whether the agent's complete report must come before its first snapshot. `rewound`: its set is of another history. */
  begin(rewound: boolean): boolean {
    this.#rewound = rewound;
    this.#isAsking = rewound || this.#hold() !== undefined;
    return this.#isAsking;
  }

  /** Takes a part of the complete report; after the last one answers what the agent is to keep. @throws Unavailable */
  async take(report: Report, fence: Guard): Promise<{ keep: string[]; isNew: boolean } | undefined> {
    if (!this.#isAsking || !report.full) return undefined;
    for (const { id, gone } of report.items) if (gone !== true) this.#reported.push(id);
    if (this.#reported.length > bounds.snapshotItems)
      throw new Error(`A complete report must have at most ${bounds.snapshotItems} items`);
    if (report.more === true) return undefined;
    this.#isAsking = false;
    const { view, server } = this.#o;
    const unknown = this.#reported.filter((id) => view.get('assignment', id)?.desired.server_id !== server);
    const hold = this.#hold();
    const isNew = hold === undefined && this.#rewound && unknown.length > this.#reported.length * limits.hold.share;
    if (isNew) await this.#place(fence, unknown.length);
    if (isNew || (hold?.confirmed === false && unknown.length > 0)) return { keep: unknown, isNew };
    if (hold !== undefined) await this.drop(fence);
    return { keep: [], isNew: false };
  }

  /** Whether that change of a key confirms the removals of this server. */
  isConfirmedBy({ key, after }: KeyChange): boolean {
    return after !== undefined && key === holdKey(this.#o) && parse(after).confirmed;
  }

  /** Forgets the hold once it was acted on. */
  async drop(fence: Guard): Promise<void> {
    await this.#o.store.txn({ if: [fence], then: [{ delete: holdKey(this.#o) }] });
  }

  async #place(fence: Guard, held: number): Promise<void> {
    const key = holdKey(this.#o);
    const value: Hold = { held, confirmed: false };
    await this.#o.store.txn({ if: [fence, { key, is: 'absent' }], then: [{ put: key, value: JSON.stringify(value) }] });
  }

  #hold(): Hold | undefined {
    const entry = this.#o.mirror.key(holdKey(this.#o));
    return entry && parse(entry.value);
  }
}

/** An operator agrees that the server loses what the store does not know. Answers false if nothing is held. */
export async function confirmRemovals(store: Store, place: Place): Promise<boolean> {
  const key = holdKey(place);
  const entry = await store.get(key);
  if (entry === undefined) return false;
  const result = await store.txn({
    if: [{ key, is: 'at', revision: entry.modRevision }],
    then: [{ put: key, value: JSON.stringify({ ...parse(entry.value), confirmed: true } satisfies Hold) }],
  });
  return result.committed;
}

/** Every hold of a tenant's servers. */
export function removalHoldsOf(tenant: string): KeyRange {
  return { prefix: keys.meta(`removals.${tenant}.`) }; // names of tenants have no dots
}

function holdKey({ tenant, server }: Place): string {
  return `${removalHoldsOf(tenant).prefix}${server}`;
}

function parse(value: string): Hold {
  return Hold.parse(JSON.parse(value));
}
