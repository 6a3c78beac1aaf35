import { keys, parseKey } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';

export interface Entry {
  key: string;
  value: string;
}

/** Every key of the store. */
export async function entriesOf(store: Store): Promise<Entry[]> {
  const found: Entry[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.list(keys.all, { limit: 500, ...(after !== undefined && { after }) });
    found.push(...page.entries);
    if (page.next === undefined) return found;
    after = page.next;
  }
}

/** Keys without the object that they belong to. `has`: whether it is there, by kind and id. */
export function leftoverKeys(entries: readonly Entry[], has: (kind: string, id: string) => boolean): string[] {
  return entries.filter((entry) => !belongs(entry, has)).map(({ key }) => `Key of nothing: ${key}`);
}

/** How many keys there are of an area. */
export function countOf(entries: readonly Entry[], area: 'agent' | 'leader' | 'replica'): number {
  return entries.filter(({ key }) => parseKey(key)?.area === area).length;
}

function belongs({ key, value }: Entry, has: (kind: string, id: string) => boolean): boolean {
  const meaning = parseKey(key);
  switch (meaning?.area) {
    case 'desired':
    case 'observed':
    case 'events':
    case 'population':
    case 'bytes':
      return has(meaning.kind, meaning.id);
    case 'unique':
      return has(meaning.kind, JSON.parse(value).id);
    case 'agent':
    case 'removals':
    case 'connections':
      return has('server', meaning.server);
    case 'leader':
    case 'replica':
    case 'idempotency':
    case 'ticket':
    case 'terminal':
    case 'audit':
    case 'tenant':
    case 'meta':
      return true;
    case undefined:
      return false;
  }
}
