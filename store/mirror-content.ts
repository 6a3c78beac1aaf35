import type { Logger } from 'pino';
import { deepFreeze } from './deep-freeze.ts';
import { definitionOf } from './definition.ts';
import { jsonEqual } from './json-equal.ts';
import { KeyTable } from './key-table.ts';
import type { KeyRecord } from './key-table.ts';
import { keys, parseKey } from './keys.ts';
import type { KeyMeaning } from './keys.ts';
import { isKindName } from './kinds/kinds.ts';
import type { KindName, ObservedOf } from './kinds/kinds.ts';
import type { KeyChange, LiveAgent, ObjectChange } from './mirror.ts';
import { ObjectTable, byCreation } from './object-table.ts';
import { decodeDesired, decodeObserved } from './record.ts';
import type { DesiredRecord } from './record.ts';
import type { Observed, ReadonlyResource, Resource } from './resource.ts';
import type { Revision } from './revision.ts';
import type { Entry } from './store.ts';
import { bytesOf, Usage } from './usage.ts';

/** The differences that a step made, in the order in which listeners get them. */
export interface Difference {
  objects: ObjectChange[];
  keys: KeyChange[];
}

/** The state of a key; without a value the key was deleted. */
export interface KeyState {
  key: string;
  value?: string;
  revision: Revision;
  /** Revision of the key's creation, if known; otherwise this change creates a key that was not there. */
  created?: Revision;
}

interface Options {
  log: Logger;
  /** Whether objects are frozen at every depth. */
  freeze: boolean;
}

/** A key of one of the two records of an object, of a kind that this version knows. */
interface ObjectMeaning {
  area: 'desired' | 'observed';
  tenant: string;
  kind: KindName;
  id: string;
}

interface Touched {
  tenant: string;
  kind: KindName;
  id: string;
  desired: boolean;
  observed: boolean;
}

type Stored<T> = T & { revision: Revision };
type State = Observed<ObservedOf<KindName>>;

/**
 * The store's content in memory, without the loop that keeps it current.
 *
 * 1. An object exists exactly if its desired record does; an observed record without one waits for it, not shown.
 * 2. An object keeps its identity until one of its records changes.
 * 3. Records of the audit log are not kept.
 * 4. A record that cannot be read changes nothing but {@link unreadable}: the object stays as it was. The revision of
 *    an observed record moves on all the same, so that its writer can replace it.
 */
export class MirrorContent {
  /** Keys of the records that could not be read, with the revision of the unreadable value. */
  readonly unreadable = new Map<string, Revision>();
  /** The use of the store by all records. */
  readonly usage = new Usage();
  readonly #options: Options;
  readonly #tables = new Map<string, Map<KindName, ObjectTable>>();
  readonly #empty = new Map<KindName, ObjectTable>();
  readonly #desired = new Map<string, Stored<DesiredRecord<unknown> & { created: Revision }>>();
  readonly #observed = new Map<string, Stored<{ state?: State }>>();
  readonly #keys = new KeyTable();

  constructor(options: Options) {
    this.#options = options;
  }

  /** The table of a kind, for reading only: tenants without objects of that kind share an empty one. */
  table<K extends KindName>(tenant: string, kind: K): ObjectTable<K> {
    const table = this.#tables.get(tenant)?.get(kind) ?? this.#emptyTable(kind);
    return table as unknown as ObjectTable<K>; // the table under K is of kind K
  }

  #emptyTable(kind: KindName): ObjectTable {
    const table = this.#empty.get(kind) ?? new ObjectTable(kind);
    this.#empty.set(kind, table);
    return table;
  }

  /** Ids of the objects of which nothing could be read. */
  unreadableOf(tenant: string, kind: KindName): string[] {
    const prefix = keys.desired(tenant, kind, '');
    return [...this.unreadable.keys()]
      .filter((key) => key.startsWith(prefix))
      .map((key) => key.slice(prefix.length))
      .filter((id) => this.table(tenant, kind).get(id) === undefined);
  }

  key(key: string): KeyRecord | undefined {
    return this.#keys.get(key);
  }

  keysUnder(prefix: string): KeyRecord[] {
    return this.#keys.under(prefix);
  }

  agent(tenant: string, server: string): LiveAgent | undefined {
    return this.#keys.agent(tenant, server);
  }

  /** Tenants that are registered or have objects. */
  tenants(): string[] {
    const found = new Set<string>();
    for (const { key } of this.keysUnder(keys.tenant(''))) {
      const meaning = parseKey(key);
      if (meaning?.area === 'tenant') found.add(meaning.tenant);
    }
    for (const [tenant, tables] of this.#tables) if (tables.values().some((table) => table.size > 0)) found.add(tenant);
    return [...found].sort();
  }

  /** Number of objects by kind, over all tenants. */
  counts(): Map<KindName, number> {
    const counts = new Map<KindName, number>();
    for (const tables of this.#tables.values())
      for (const [kind, table] of tables) counts.set(kind, (counts.get(kind) ?? 0) + table.size);
    return counts;
  }

  /** Takes over the changes of one revision. */
  apply(changes: readonly KeyState[], revision: Revision): Difference {
    return this.#take(changes, revision, false);
  }

  /**
   * Makes the content equal to a full list, and returns real differences only. In the same history a key at the same
   * revision has the same value; in another history values are compared.
   */
  replace(entries: readonly Entry[], at: { revision: Revision; sameHistory: boolean; initial: boolean }): Difference {
    const listed = new Set<string>();
    const changes: KeyState[] = [];
    for (const { key, value, modRevision, createRevision } of entries) {
      listed.add(key);
      if (at.sameHistory && this.#revisionOf(key) === modRevision) continue;
      changes.push({ key, value, revision: modRevision, created: createRevision });
    }
    for (const key of this.#held()) if (!listed.has(key)) changes.push({ key, revision: at.revision });
    this.usage.retain(listed, meaningOf);
    return this.#take(changes, at.revision, at.initial);
  }

  /** Whether the content of the key equals a list of the same history, or no content of such a key is kept. */
  holds({ key, value, modRevision }: Entry): boolean {
    const meaning = meaningOf(key);
    if (!meaning || isUncompared(meaning)) return true;
    if (this.usage.sizeOf(key) !== bytesOf(key, value, meaning.area)) return false;
    return isCountedAlone(meaning) || (this.unreadable.get(key) ?? this.#revisionOf(key)) === modRevision;
  }

  /** Keys that are not in a full list of the same history, as deletions. */
  besides(listed: ReadonlySet<string>, revision: Revision): KeyState[] {
    const gone = new Set<string>();
    for (const held of [this.#held(), this.usage.keys()])
      for (const key of held) {
        if (listed.has(key)) continue;
        const meaning = meaningOf(key);
        if (meaning && !isUncompared(meaning)) gone.add(key);
      }
    return [...gone].map((key) => ({ key, revision }));
  }

  *#held(): Iterable<string> {
    yield* this.#desired.keys();
    yield* this.#observed.keys();
    yield* this.#keys.names();
    yield* this.unreadable.keys();
  }

  #revisionOf(key: string): Revision | undefined {
    return (this.#desired.get(key) ?? this.#observed.get(key) ?? this.#keys.get(key))?.revision;
  }

  #take(changes: readonly KeyState[], revision: Revision, initial: boolean): Difference {
    const touched = new Map<string, Touched>();
    const difference: Difference = { objects: [], keys: [] };
    for (const change of changes) {
      const meaning = meaningOf(change.key);
      if (!meaning) continue;
      this.usage.set(change.key, change.value, meaning);
      if (meaning.area === 'bytes') continue;
      const { area } = meaning;
      if (area === 'population') continue; // only its revision matters, which a transaction reads from the store
      if (area === 'desired' || area === 'observed') {
        const { kind } = meaning;
        if (!isKindName(kind)) continue;
        const object = { ...meaning, area, kind };
        if (this.#takeRecord(change, object)) touch(touched, object);
      } else if (meaning.area === 'audit') {
        // a log has no end: none of its records are kept, and listeners only learn that there is a new one
        const { key, value } = change;
        if (meaning.part === 'pending' && value !== undefined)
          difference.keys.push({ key, after: value, revision, initial });
      } else {
        const before = this.#keys.get(change.key);
        if (before?.value === change.value && before?.revision === change.revision) continue;
        this.#takeKey(change, meaning);
        difference.keys.push({
          key: change.key,
          ...(before && { before: before.value }),
          ...(change.value !== undefined && { after: change.value }),
          revision,
          initial,
        });
      }
    }
    for (const change of this.#join(touched)) difference.objects.push({ ...change, revision, initial });
    return difference;
  }

  /** Takes over a record. @returns whether anything is different. */
  #takeRecord(change: KeyState, meaning: ObjectMeaning): boolean {
    const { key, value, revision } = change;
    const created = change.created ?? this.#desired.get(key)?.created ?? revision;
    const records: Map<string, Stored<object>> = meaning.area === 'desired' ? this.#desired : this.#observed;
    if (value === undefined) {
      this.unreadable.delete(key);
      return records.delete(key);
    }
    const before = records.get(key);
    try {
      const decoded = this.#decode(meaning, value, revision, created);
      this.#place(meaning, decoded);
      this.unreadable.delete(key);
      if (before?.revision === revision && jsonEqual(before, decoded)) return false;
      records.set(key, decoded);
      return true;
    } catch (error) {
      this.#reportUnreadable(key, revision, error);
      if (meaning.area === 'desired') return false;
      this.#observed.set(key, { ...this.#observed.get(key), revision });
      return true;
    }
  }

  #place({ area, tenant, kind, id }: ObjectMeaning, decoded: object): void {
    if (area !== 'desired' || !('desired' in decoded)) return;
    const { desired } = decoded;
    if (typeof desired === 'object' && desired !== null) this.usage.place(tenant, kind, id, desired);
  }

  #decode({ area, kind }: ObjectMeaning, value: string, revision: Revision, created: Revision): Stored<object> {
    const definition = definitionOf(kind);
    const decoded =
      area === 'desired'
        ? { ...decodeDesired(definition, value), revision, created }
        : { state: decodeObserved(definition, value), revision };
    return this.#options.freeze ? deepFreeze(decoded) : decoded;
  }

  #takeKey({ key, value, revision }: KeyState, meaning: KeyMeaning): void {
    this.unreadable.delete(key);
    try {
      this.#keys.set(key, value, revision, meaning);
    } catch (error) {
      this.#reportUnreadable(key, revision, error);
    }
  }

  #reportUnreadable(key: string, revision: Revision, error: unknown): void {
    this.unreadable.set(key, revision);
    this.#options.log.error({ key, err: error }, 'a record cannot be read: a later release wrote it, or it is damaged');
  }

  /** Brings the tables up to date, oldest object first, so that a full load appends. */
  #join(touched: ReadonlyMap<string, Touched>): Omit<ObjectChange, 'revision' | 'initial'>[] {
    const joined = [...touched.values()].map((it) => ({ it, after: this.#resource(it) }));
    joined.sort((a, b) => (a.after && b.after ? byCreation(a.after, b.after) : Number(!!a.after) - Number(!!b.after)));
    const changes: Omit<ObjectChange, 'revision' | 'initial'>[] = [];
    for (const { it, after } of joined) {
      const { tenant, kind, id } = it;
      const table = this.#tableOf(tenant, kind);
      const before = table.get(id);
      if (!before && !after) continue;
      table.set(id, after);
      const change = { tenant, kind, id, ...(before && { before }), ...(after && { after }) };
      if (it.desired || !after) changes.push({ ...change, part: 'desired' });
      if (it.observed && after) changes.push({ ...change, part: 'observed' });
    }
    return changes;
  }

  #resource({ tenant, kind, id }: Touched): ReadonlyResource | undefined {
    const desired = this.#desired.get(keys.desired(tenant, kind, id));
    if (!desired) return undefined;
    const observed = this.#observed.get(keys.observed(tenant, kind, id));
    const resource = {
      meta: {
        tenant,
        kind,
        id,
        desiredRevision: desired.revision,
        createdRevision: desired.created,
        ...(observed && { observedRevision: observed.revision }),
        ...desired.meta,
      },
      desired: desired.desired,
      ...(observed?.state && { observed: observed.state }),
    } as Resource; // both records were read by the schemas of the kind
    return this.#options.freeze ? deepFreeze(resource) : resource;
  }

  #tableOf(tenant: string, kind: KindName): ObjectTable {
    const tables = this.#tables.get(tenant) ?? new Map<KindName, ObjectTable>();
    const table = tables.get(kind) ?? new ObjectTable(kind);
    this.#tables.set(tenant, tables.set(kind, table));
    return table;
  }
}

/** `undefined` for a key that cannot be parsed: a newer version wrote it, and it is left alone. */
function meaningOf(key: string): KeyMeaning | undefined {
  try {
    return parseKey(key);
  } catch {
    return undefined;
  }
}

/** Audit records are neither kept nor counted. Of bytes only the size is kept; they are too large to read for that. */
function isUncompared({ area }: KeyMeaning): boolean {
  return area === 'audit' || area === 'bytes';
}

/** A key of which only the size is kept. */
function isCountedAlone(meaning: KeyMeaning): boolean {
  if (meaning.area === 'population') return true;
  return (meaning.area === 'desired' || meaning.area === 'observed') && !isKindName(meaning.kind);
}

function touch(touched: Map<string, Touched>, { area, tenant, kind, id }: ObjectMeaning): void {
  const key = keys.desired(tenant, kind, id);
  const it = touched.get(key) ?? { tenant, kind, id, desired: false, observed: false };
  it[area] = true;
  touched.set(key, it);
}
