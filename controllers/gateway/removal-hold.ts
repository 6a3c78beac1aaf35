import type { Report } from '../../agent-protocol/control-session.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { parseHeldRemovals, putHeldRemovals } from '../../store/held-removals.ts';
import type { HeldRemovals } from '../../store/held-removals.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, TenantView } from '../../store/mirror.ts';
import type { Guard, Store } from '../../store/store.ts';
import { limits } from './limits.ts';

export interface RemovalHoldOptions {
  tenant: string;
  server: string;
  store: Store;
  view: Pick<TenantView, 'get' | 'heldRemovals'>;
}

/** Finds out in one session what the agent is to keep of what a rewound store does not know. */
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
    return after !== undefined && key === this.#key && parseHeldRemovals(after).confirmed;
  }

  /** Forgets the hold once it was acted on. */
  async drop(fence: Guard): Promise<void> {
    await this.#o.store.txn({ if: [fence], then: [{ delete: this.#key }] });
  }

  async #place(fence: Guard, held: number): Promise<void> {
    const { store, tenant, server } = this.#o;
    const write = putHeldRemovals(tenant, server, { held, confirmed: false });
    await store.txn({ if: [fence, { key: this.#key, is: 'absent' }], then: [write] });
  }

  #hold(): HeldRemovals | undefined {
    return this.#o.view.heldRemovals(this.#o.server);
  }

  get #key(): string {
    return keys.removals(this.#o.tenant, this.#o.server);
  }
}
