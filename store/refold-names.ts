import { keys, parseKey } from './keys.ts';
import type { Store } from './store.ts';

/** What `refoldNames` did. */
export interface Refolding {
  /** Names that moved to the key of their present form. */
  moved: number;
  /** Objects whose name equals that of another object now; they keep the name, but do not claim it any more. */
  clashes: { tenant: string; kind: string; name: string; holders: readonly string[] }[];
}

const pageSize = 500;

/**
 * Moves the names that an earlier release stored in another form to the keys of their present form. Idempotent, and
 * safe beside replicas that do the same. Of two objects whose names are equal now, the one that holds the key keeps it.
 */
export async function refoldNames(store: Store): Promise<Refolding> {
  const done: Refolding = { moved: 0, clashes: [] };
  const { entries: tenants } = await store.list({ prefix: keys.tenant('') }, {});
  for (const { key } of tenants) {
    const meaning = parseKey(key);
    if (meaning?.area === 'tenant') await refoldTenant(store, meaning.tenant, done);
  }
  return done;
}

async function refoldTenant(store: Store, tenant: string, done: Refolding): Promise<void> {
  let after: string | undefined;
  do {
    const page = await store.list(keys.allUnique(tenant), { limit: pageSize, ...(after !== undefined && { after }) });
    for (const { key, value, modRevision } of page.entries) {
      const meaning = parseKey(key);
      if (meaning?.area !== 'unique') continue;
      const { kind, scope, name } = meaning;
      const present = keys.unique(tenant, kind, scope, name);
      if (present === key) continue;
      const unchanged = { key, is: 'at', revision: modRevision } as const;
      const moving = await store.txn({
        if: [unchanged, { key: present, is: 'absent' }],
        then: [{ put: present, value }, { delete: key }],
      });
      if (moving.committed) {
        done.moved += 1;
        continue;
      }
      const holder = await store.get(present);
      if (holder === undefined) continue; // another process changed a key meanwhile: the next start looks again
      const released = await store.txn({ if: [unchanged], then: [{ delete: key }] });
      if (released.committed && holder.value !== value)
        done.clashes.push({ tenant, kind, name, holders: [holder.value, value] });
    }
    after = page.next;
  } while (after !== undefined);
}
