import type { KindName } from '../../store/kinds/kinds.ts';
import type { Ref } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import { limits } from './limits.ts';

const none: ReadonlySet<string> = new Set();

function name(tenant: string, kind: KindName, id: string): string {
  return `${tenant}/${kind}/${id}`;
}

/**
 * Which keys of a queue wait for which objects, by their last verdicts.
 *
 * An object may change after a reconcile has read it and before its verdict asks to wait for it. The last changes are
 * remembered, so that such a change is not missed.
 */
export class Waiters {
  readonly #keysByObject = new Map<string, Set<string>>();
  readonly #objectsByKey = new Map<string, readonly string[]>();
  /** A ring of the last changes; `#next` is the next place to write. */
  readonly #recent: { object: string; revision: Revision }[] = [];
  #next = 0;

  /** Notes a change. @returns the keys that wait for the object. */
  changed(tenant: string, kind: KindName, id: string, revision: Revision): ReadonlySet<string> {
    const object = name(tenant, kind, id);
    this.#recent[this.#next] = { object, revision };
    this.#next = (this.#next + 1) % limits.recentChanges;
    return this.#keysByObject.get(object) ?? none;
  }

  /** Whether one of the objects changed after `since`, or may have: then waiting for a change could last forever. */
  changedSince(tenant: string, refs: readonly Ref[], since: Revision): boolean {
    const wanted = new Set(refs.map((ref) => name(tenant, ref.kind, ref.id)));
    for (let back = 1; back <= this.#recent.length; back++) {
      const change = this.#recent[(this.#next - back + limits.recentChanges) % limits.recentChanges];
      if (change === undefined || change.revision <= since) return false;
      if (wanted.has(change.object)) return true;
    }
    return this.#recent.length === limits.recentChanges;
  }

  /** Replaces what the key waits for. */
  set(key: string, tenant: string, refs: readonly Ref[]): void {
    this.clear(key);
    if (refs.length === 0) return;
    const objects = refs.map((ref) => name(tenant, ref.kind, ref.id));
    this.#objectsByKey.set(key, objects);
    for (const object of objects) {
      const keys = this.#keysByObject.get(object);
      if (keys === undefined) this.#keysByObject.set(object, new Set([key]));
      else keys.add(key);
    }
  }

  clear(key: string): void {
    for (const object of this.#objectsByKey.get(key) ?? []) {
      const keys = this.#keysByObject.get(object);
      keys?.delete(key);
      if (keys?.size === 0) this.#keysByObject.delete(object);
    }
    this.#objectsByKey.delete(key);
  }
}
