import type { Report } from '../../agent-protocol/control-session.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { isUnavailable } from '../../store/errors.ts';
import { parseHeldRemovals, putHeldRemovals } from '../../store/held-removals.ts';
import type { HeldRemovals } from '../../store/held-removals.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, TenantView } from '../../store/mirror.ts';
import type { Guard, Store, Write } from '../../store/store.ts';

export interface RemovalHoldOptions {
  tenant: string;
  server: string;
  store: Pick<Store, 'txn'>;
  view: Pick<TenantView, 'get' | 'heldRemovals' | 'unreadable'>;
  /** See `presentEra`. */
  era: () => string | undefined;
}

/** Ids that the agent is to keep although the store does not know them. `isNew`: they were not held before. */
export interface Census {
  keep: string[];
  isNew: boolean;
}

/**
 * Finds out in one session what its agent is to keep although the store does not know it.
 *
 * In one history the store forgets an assignment only after the agent has confirmed its end. So an assignment that the
 * agent has and the store does not know is newer than a restored backup: it stays until an operator confirms the
 * removal.
 */
export class RemovalHold {
  #options: RemovalHoldOptions;
  #reported: string[] = [];
  #isProven = true;
  #isAsking = false;

  constructor(options: RemovalHoldOptions) {
    this.#options = options;
  }

  /**
   * Whether the agent's complete report must come before its first snapshot. `isProven`: the agent's set is of the
   * store's present history.
   */
  begin(isProven: boolean): boolean {
    this.#isProven = isProven;
    this.#isAsking = !isProven || this.#hold() !== undefined;
    return this.#isAsking;
  }

  /**
   * Takes a part of the complete report; after the last part it returns what the agent is to keep. `unstored`: the
   * record of it could not be stored, so no set may be sent in this session.
   */
  async take(report: Report, fence: Guard | undefined): Promise<Census | 'unstored' | undefined> {
    if (!this.#isAsking || !report.full) return undefined;
    for (const { id, gone } of report.items) if (gone !== true) this.#reported.push(id);
    if (this.#reported.length > bounds.snapshotItems)
      throw new Error(`A complete report must have at most ${bounds.snapshotItems} items`);
    if (report.more === true) return undefined;
    this.#isAsking = false;
    const { view, server } = this.#options;
    // An assignment that this release cannot read is in the store, and is kept in any case.
    const unreadable = new Set(view.unreadable('assignment'));
    const unknown = this.#reported.filter(
      (id) => view.get('assignment', id)?.desired.server_id !== server && !unreadable.has(id),
    );
    const hold = this.#hold();
    if (hold === undefined) {
      if (this.#isProven || unknown.length === 0) return { keep: [], isNew: false };
      return (await this.#place(fence, unknown.length)) ? { keep: unknown, isNew: true } : 'unstored';
    }
    if (unknown.length > 0 && !hold.confirmed) return { keep: unknown, isNew: false };
    if (unknown.length > 0 && hold.era !== this.#options.era())
      return (await this.#replace(fence, unknown.length)) ? { keep: unknown, isNew: true } : 'unstored';
    return (await this.#forget(fence)) ? { keep: [], isNew: false } : 'unstored';
  }

  /** Whether a change of a key confirms the removals of this server. */
  isConfirmedBy({ key, after }: KeyChange): boolean {
    return after !== undefined && key === this.#key && parseHeldRemovals(after).confirmed;
  }

  /** Deletes the record of a hold that was confirmed and acted on. @returns whether the store did. */
  release(fence: Guard | undefined): Promise<boolean> {
    this.#isAsking = false;
    return this.#forget(fence);
  }

  #forget(fence: Guard | undefined): Promise<boolean> {
    return this.#write(fence, [], { delete: this.#key });
  }

  #place(fence: Guard | undefined, held: number): Promise<boolean> {
    const { tenant, server } = this.#options;
    const write = putHeldRemovals(tenant, server, { held, confirmed: false });
    return this.#write(fence, [{ key: this.#key, is: 'absent' }], write);
  }

  /** In place of a confirmation that was given in another era: an operator is asked again. */
  #replace(fence: Guard | undefined, held: number): Promise<boolean> {
    const { tenant, server } = this.#options;
    const guard: Guard = { key: this.#key, is: 'present' };
    return this.#write(fence, [guard], putHeldRemovals(tenant, server, { held, confirmed: false }));
  }

  async #write(fence: Guard | undefined, guards: readonly Guard[], write: Write): Promise<boolean> {
    if (fence === undefined) return false;
    try {
      const { committed } = await this.#options.store.txn({ if: [fence, ...guards], then: [write] });
      return committed;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return false;
    }
  }

  #hold(): HeldRemovals | undefined {
    return this.#options.view.heldRemovals(this.#options.server);
  }

  get #key(): string {
    return keys.removals(this.#options.tenant, this.#options.server);
  }
}
