import { definitionOf } from './definition.ts';
import type { Definition } from './definition.ts';
import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';
import { Ordered, compareText } from './ordered.ts';
import type { ReadonlyResource } from './resource.ts';

/** The objects of one kind of one tenant, and their indexes. Lists are in the order of creation, then of the id. */
export class ObjectTable<K extends KindName = KindName> {
  readonly #definition: Definition<K>;
  readonly #byId = new Map<string, ReadonlyResource<K>>();
  readonly #all = new Ordered<ReadonlyResource<K>>(byCreation);
  readonly #indexes: ReadonlyMap<string, Map<string, Ordered<ReadonlyResource<K>>>>;

  constructor(kind: K) {
    this.#definition = definitionOf(kind);
    const names = new Set([...Object.keys(this.#definition.indexes ?? {}), 'owner', 'label']);
    this.#indexes = new Map([...names].map((name) => [name, new Map()]));
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): ReadonlyResource<K> | undefined {
    return this.#byId.get(id);
  }

  list(): readonly ReadonlyResource<K>[] {
    return this.#all.items;
  }

  /** @throws Error if the kind declares no such index. */
  by(index: string, value: string): readonly ReadonlyResource<K>[] {
    const values = this.#indexes.get(index);
    if (!values) throw new Error(`Kind ${this.#definition.kind} has no index of that name: ${index}`);
    return values.get(value)?.items ?? [];
  }

  /** Adds or replaces the object; without `after` removes it. */
  set(id: string, after: ReadonlyResource<K> | undefined): void {
    const before = this.#byId.get(id);
    if (after) this.#byId.set(id, after);
    else this.#byId.delete(id);
    this.#all.replace(before, after);
    for (const [name, buckets] of this.#indexes) {
      const old = before ? this.#values(name, before) : [];
      const now = after ? this.#values(name, after) : [];
      for (const value of old) {
        const bucket = buckets.get(value);
        bucket?.replace(before, now.includes(value) ? after : undefined);
        if (bucket?.isEmpty) buckets.delete(value);
      }
      for (const value of now) {
        if (old.includes(value)) continue;
        const bucket = buckets.get(value) ?? new Ordered<ReadonlyResource<K>>(byCreation);
        bucket.replace(undefined, after);
        buckets.set(value, bucket);
      }
    }
  }

  /** Each value once, so that an object is listed once under it. */
  #values(index: string, { meta, desired, observed }: ReadonlyResource<K>): readonly string[] {
    // an index only reads
    const declared = this.#definition.indexes?.[index]?.(
      desired as DesiredOf<K>,
      observed as ObservedOf<K> | undefined,
    );
    const values = declared === undefined ? [] : typeof declared === 'string' ? [declared] : [...declared];
    if (index === 'owner') values.push(...meta.owners.map((owner) => owner.id));
    if (index === 'label') values.push(...Object.entries(meta.labels).map(([key, value]) => `${key}=${value}`));
    return values.length < 2 ? values : [...new Set(values)];
  }
}

/** The order of lists: by time of creation, then by id. */
export function byCreation(a: ReadonlyResource, b: ReadonlyResource): number {
  return compareText(a.meta.createdAt, b.meta.createdAt) || compareText(a.meta.id, b.meta.id);
}
