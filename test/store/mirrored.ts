import { expect } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { keys, parseKey } from '../../store/keys.ts';
import type { KeyMeaning } from '../../store/keys.ts';
import { isKindName } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Entry, Store } from '../../store/store.ts';

/** Shown as objects, or not at all. */
const notAsKeys = new Set(['desired', 'observed', 'population', 'bytes']);
/** The mirror that is waited for writes it by itself, also once it has reached what it was waited for. */
const barrier = keys.meta('barrier');

/** Expects that the mirror, once it reached the present, shows exactly what the store has; answers with the objects. */
export async function expectMirrored(store: Store, mirror: Mirror): Promise<ReadonlyResource[]> {
  await mirror.reached(await store.revision(), AbortSignal.timeout(20_000));
  const entries = await everything(store);
  const others = entries.filter(({ key }) => key !== barrier && !notAsKeys.has(parseKey(key)?.area ?? ''));
  expect(mirror.keysUnder(keys.all.prefix).filter(({ key }) => key !== barrier)).toEqual(
    others.map(({ key, value, modRevision }) => ({ key, value, revision: modRevision })),
  );
  const expected = await objectsOf(store, entries);
  const tables = new Map(expected.map(({ meta: { tenant, kind } }) => [`${tenant}/${kind}`, { tenant, kind }]));
  const shown: ReadonlyResource[] = [];
  for (const { tenant, kind } of tables.values()) {
    const view = mirror.tenant(tenant);
    const list = view.list(kind);
    expect(list).toEqual(expected.filter(({ meta }) => meta.tenant === tenant && meta.kind === kind));
    for (const it of list) expect(view.get(kind, it.meta.id)).toBe(it);
    shown.push(...list);
  }
  return shown;
}

async function everything(store: Store): Promise<Entry[]> {
  const entries: Entry[] = [];
  let page = await store.list(keys.all);
  entries.push(...page.entries);
  while (page.next !== undefined) {
    page = await store.list(keys.all, { after: page.next, at: page.revision });
    entries.push(...page.entries);
  }
  return entries;
}

/** In the order of lists. */
async function objectsOf(store: Store, entries: readonly Entry[]): Promise<Resource[]> {
  const objects: Resource[] = [];
  for (const { key } of entries) {
    const meaning = parseKey(key);
    if (!isObject(meaning)) continue;
    const it = await openRepository(store, meaning.tenant, systemClock).get(meaning.kind, meaning.id);
    objects.push(it!);
  }
  return objects.sort((a, b) => (a.meta.createdAt + a.meta.id < b.meta.createdAt + b.meta.id ? -1 : 1));
}

function isObject(
  meaning: KeyMeaning | undefined,
): meaning is { area: 'desired'; tenant: string; kind: KindName; id: string } {
  return meaning?.area === 'desired' && isKindName(meaning.kind);
}
