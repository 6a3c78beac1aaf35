import { definitionOf } from '../../store/definition.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';

/** A view as it will be once units have committed: later objects of one request see the earlier ones. */
export class ComingView {
  readonly view: TenantView;
  readonly #coming = new Map<string, ReadonlyResource>();

  constructor(now: TenantView) {
    this.view = {
      ...now,
      tenant: now.tenant,
      isSame: now.isSame,
      get: (kind, id) => this.#known(kind, id) ?? now.get(kind, id),
      by: (kind, index, value) => [
        ...now.by(kind, index, value).filter(({ meta }) => this.#known(kind, meta.id) === undefined),
        ...this.#all(kind).filter((it) => isIn(it, index, value)),
      ],
      list: (kind) => [
        ...now.list(kind).filter(({ meta }) => this.#known(kind, meta.id) === undefined),
        ...this.#all(kind),
      ],
      unreadable: (kind) => now.unreadable(kind),
      agent: (server) => now.agent(server),
      heldRemovals: (server) => now.heldRemovals(server),
      connections: (server) => now.connections(server),
    };
  }

  /** Shows what the unit does so far. */
  show(unit: Unit): void {
    for (const { it } of unit.changes().objects) this.#coming.set(`${it.meta.kind} ${it.meta.id}`, it);
  }

  /** Shows an object so, while a task runs that does not write it. */
  async showing(it: ReadonlyResource, task: () => Promise<void>): Promise<void> {
    const key = `${it.meta.kind} ${it.meta.id}`;
    const shown = this.#coming.get(key);
    this.#coming.set(key, it);
    await task();
    if (shown === undefined) this.#coming.delete(key);
    else this.#coming.set(key, shown);
  }

  #known<K extends KindName>(kind: K, id: string): ReadonlyResource<K> | undefined {
    const it = this.#coming.get(`${kind} ${id}`);
    return it !== undefined && isOf(it, kind) ? it : undefined;
  }

  #all<K extends KindName>(kind: K): ReadonlyResource<K>[] {
    return [...this.#coming.values()].flatMap((it) => (isOf(it, kind) ? [it] : []));
  }
}

function isOf<K extends KindName>(it: ReadonlyResource, kind: K): it is ReadonlyResource<K> & ReadonlyResource {
  return it.meta.kind === kind;
}

function isIn<K extends KindName>(it: ReadonlyResource<K>, index: string, value: string): boolean {
  if (index === 'owner') return it.meta.owners.some(({ id }) => id === value);
  const own = definitionOf<KindName>(it.meta.kind).indexes?.[index]?.(
    it.desired as DesiredOf<KindName>, // only read
    it.observed as ObservedOf<KindName> | undefined,
  );
  return Array.isArray(own) ? own.includes(value) : own === value;
}
