import { definitionOf } from '../../store/definition.ts';
import { afterUnmirrored, keys, parseKey } from '../../store/keys.ts';
import { isKindName, type KindName } from '../../store/kinds/kinds.ts';
import { Pages } from '../../store/pages.ts';
import { decodeDesired } from '../../store/record.ts';
import type { Revision } from '../../store/revision.ts';
import type { Entry, Guard } from '../../store/store.ts';
import type { Term } from '../runtime/leader.ts';
import { limits } from '../runtime/limits.ts';
import type { BackgroundDeps } from '../runtime/manager.ts';
import type { OrphanArea } from '../runtime/metrics.ts';
import { holderOf } from '../../store/commit-failure.ts';

/** Since when a key is an orphan, on this leader's monotonic clock, and the revision that it had. */
export type SeenOrphans = Map<string, { revision: Revision; since: number }>;

type Deps = Pick<BackgroundDeps, 'store' | 'mirror' | 'clock' | 'log' | 'metrics'>;

/** The object that a key belongs to. */
interface Subject {
  area: OrphanArea;
  tenant: string;
  kind: KindName;
  id: string;
}

/**
 * Looks for names, markers, observed records, events and bytes without their object, and removes those that were orphans
 * an hour ago already. There should be none: every transaction writes an object with all of its keys. So each one is a
 * bug and counted as one. A key of a kind that this version does not know is left alone.
 */
export async function removeOrphans(seen: SeenOrphans, term: Term, deps: Deps): Promise<void> {
  const { store, mirror, clock } = deps;
  const still = new Set<string>();
  const options = { most: limits.garbage.pageSize, after: afterUnmirrored, isPinned: false };
  term.signal.throwIfAborted();
  for await (const page of new Pages(store, options)) {
    term.signal.throwIfAborted();
    await mirror.reached(page.revision, term.signal);
    for (const entry of page.entries) {
      const subject = subjectOf(entry);
      // The mirror finds candidates cheaply; only the store decides.
      if (subject === undefined || isOwned(entry, subject, deps)) continue;
      const proof = await orphanProof(entry, subject, deps);
      if (proof === undefined) continue;
      still.add(entry.key);
      const known = seen.get(entry.key);
      const isSame = known?.revision === entry.modRevision;
      if (!isSame && (known !== undefined || seen.size < limits.garbage.orphans))
        seen.set(entry.key, { revision: entry.modRevision, since: clock.monotonic() });
      if (isSame && clock.monotonic() - known.since >= limits.garbage.orphanAgeMs)
        await remove(entry, subject, proof, term, deps);
    }
  }
  for (const key of seen.keys()) if (!still.has(key)) seen.delete(key);
}

/** `undefined` for a key that belongs to no object, or that this version cannot read. */
function subjectOf({ key, value }: Entry): Subject | undefined {
  try {
    const meaning = parseKey(key);
    switch (meaning?.area) {
      case 'observed':
      case 'events':
      case 'population':
      case 'bytes':
        return isKindName(meaning.kind) ? { ...meaning, area: meaning.area, kind: meaning.kind } : undefined;
      case 'unique': {
        const id = holderOf(value);
        const { tenant, kind } = meaning;
        return id !== undefined && isKindName(kind) ? { area: 'unique', tenant, kind, id } : undefined;
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}

/** Whether the mirror has the object, and the object has the key. */
function isOwned({ key }: Entry, { area, tenant, kind, id }: Subject, { mirror }: Deps): boolean {
  const it = mirror.tenant(tenant).get(kind, id);
  if (it === undefined) return false;
  return area !== 'unique' || claims(tenant, kind, it.desired, key);
}

function claims(tenant: string, kind: KindName, desired: unknown, key: string): boolean {
  const names = definitionOf(kind).unique?.(desired as never) ?? []; // the desired state of that kind
  return names.some(({ scope, name }) => keys.unique(tenant, kind, scope, name) === key);
}

/** The guard under which the key is an orphan; `undefined` if the store shows that it is none, or does not show it. */
async function orphanProof(
  { key }: Entry,
  { area, tenant, kind, id }: Subject,
  { store }: Deps,
): Promise<Guard | undefined> {
  const owner = keys.desired(tenant, kind, id);
  const entry = await store.get(owner);
  if (entry === undefined) return { key: owner, is: 'absent' };
  if (area !== 'unique') return undefined;
  try {
    if (claims(tenant, kind, decodeDesired(definitionOf(kind), entry.value).desired, key)) return undefined;
  } catch {
    return undefined; // a record that cannot be read may hold the name
  }
  return { key: owner, is: 'at', revision: entry.modRevision };
}

async function remove(entry: Entry, { area, kind, id }: Subject, proof: Guard, term: Term, deps: Deps): Promise<void> {
  const { key, modRevision } = entry;
  const result = await deps.store.txn({
    if: [term.fence, { key, is: 'at', revision: modRevision }, proof],
    then: [{ delete: key }],
  });
  if (!result.committed) return;
  deps.metrics.orphans.inc({ area });
  deps.log.error(
    { area, kind, id },
    'Removed a key whose object is gone: its deletion should have removed it, so this is a bug',
  );
}
