import type { Logger } from 'pino';
import type { Clock } from '../../store/clock.ts';
import { committed } from '../../store/commit-failure.ts';
import { definitionOf } from '../../store/definition.ts';
import { conflict } from '../../store/errors.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Repository, Unit } from '../../store/repo.ts';
import type { OwnerRef, ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import type { Guard } from '../../store/store.ts';
import type { Context, EventInput, NotificationInput } from './controller.ts';
import { Failure } from './failure.ts';
import type { WriteOperation } from './metrics.ts';

/** What is the same for all runs of one controller in one tenant. */
export interface ContextScope {
  readonly controller: string;
  readonly children: ReadonlySet<KindName>;
  /** Kinds whose finalizers may be waived: everything declared. */
  readonly declared: ReadonlySet<KindName>;
  readonly repository: Repository;
  /** Reads of the controller, checked. */
  readonly view: TenantView;
  /** Reads of the runtime itself. */
  readonly world: TenantView;
  readonly fence: Guard;
  readonly clock: Clock;
  readonly log: Logger;
  wrote(operation: WriteOperation): void;
  event(of: ReadonlyResource, event: EventInput): void;
  notify(of: ReadonlyResource, key: string, notification: NotificationInput): Promise<void>;
}

/** The context of one run: it keeps the highest revision that the run wrote, for the next run's read barrier. */
export class RunContext implements Context {
  readonly signal: AbortSignal;
  readonly #scope: ContextScope;
  readonly #key: string;
  /** Objects as this run wrote them, which the mirror may not show yet. */
  readonly #own = new Map<string, Resource>();
  #written: Revision | undefined;
  #log: Logger | undefined;

  constructor(scope: ContextScope, key: string, signal: AbortSignal) {
    this.#scope = scope;
    this.#key = key;
    this.signal = signal;
  }

  get tenant(): string {
    return this.#scope.view.tenant;
  }

  get view(): TenantView {
    return this.#scope.view;
  }

  get clock(): Clock {
    return this.#scope.clock;
  }

  get log(): Logger {
    return (this.#log ??= this.#scope.log.child({ key: this.#key }));
  }

  /** The highest revision that this run wrote. */
  get written(): Revision | undefined {
    return this.#written;
  }

  async ensure<C extends KindName>(
    kind: C,
    id: string,
    desired: DesiredOf<C>,
    owner: ReadonlyResource,
  ): Promise<Resource<C>> {
    this.#mayWrite(kind);
    const current = this.#current(kind, id);
    if (current === undefined) return this.#create(kind, id, desired, owner);
    if (!current.meta.owners.some((ref) => isRef(ref, owner)))
      throw new Failure('NotOwned', `Cannot change ${kind} as it belongs to another owner: ${id}`);
    return this.#change('ensure', current, (draft) => replace(draft, desired));
  }

  async amend<C extends KindName>(
    kind: C,
    id: string,
    change: (draft: DesiredOf<C>) => void,
  ): Promise<Resource<C> | undefined> {
    this.#mayWrite(kind);
    const current = this.#current(kind, id);
    return current === undefined ? undefined : this.#change('amend', current, change);
  }

  async retire(kind: KindName, id: string): Promise<void> {
    this.#mayWrite(kind);
    const current = this.#current(kind, id);
    if (current === undefined || current.meta.deletionRequestedAt !== undefined) return;
    const unit = this.#begin();
    unit.requestDelete(current);
    await this.#commit('retire', unit);
    this.#own.delete(name(kind, id));
  }

  async waive(kind: KindName, id: string, finalizer: string): Promise<void> {
    if (!this.#scope.declared.has(kind)) this.#undeclared('waives finalizers of', kind);
    const current = this.#current(kind, id);
    if (current === undefined || !current.meta.finalizers.includes(finalizer)) return;
    const unit = this.#begin();
    unit.release(current, finalizer);
    await this.#commit('waive', unit);
    this.#own.delete(name(kind, id));
  }

  event(of: ReadonlyResource, event: EventInput): void {
    this.#scope.event(of, event);
  }

  async notify(of: ReadonlyResource, key: string, notification: NotificationInput): Promise<void> {
    await this.#scope.notify(of, key, notification);
  }

  /** Guards the owners, so that no child is born to an owner that goes meanwhile. */
  async #create<C extends KindName>(
    kind: C,
    id: string,
    desired: DesiredOf<C>,
    owner: ReadonlyResource,
  ): Promise<Resource<C>> {
    const derived = definitionOf(kind).owners?.(desired) ?? [];
    const isDerived = derived.some((ref) => isRef(ref, owner));
    const added: OwnerRef[] = isDerived ? [] : [{ kind: owner.meta.kind, id: owner.meta.id, blocks: true }];
    const unit = this.#begin();
    const parents = derived.filter((ref) => ref.blocks && !isRef(ref, owner));
    const living = parents.map((ref) => this.#parent(ref.kind as KindName, ref.id)); // a definition names kinds only
    for (const parent of [owner, ...living]) {
      if (parent.meta.deletionRequestedAt !== undefined)
        throw conflict(`Cannot create ${kind} as its ${parent.meta.kind} is being deleted: ${parent.meta.id}`);
      unit.require(parent);
    }
    const made = unit.create(kind, id, desired, { owners: added });
    await this.#commit('ensure', unit);
    this.#own.set(name(kind, id), made as unknown as Resource); // the map holds resources of every kind
    return made;
  }

  #parent(kind: KindName, id: string): ReadonlyResource {
    const parent = this.#scope.world.get(kind, id);
    if (parent === undefined) throw conflict(`Cannot create a child as its ${kind} is gone: ${id}`);
    return parent;
  }

  async #change<C extends KindName>(
    operation: WriteOperation,
    current: ReadonlyResource<C>,
    change: (draft: DesiredOf<C>) => void,
  ): Promise<Resource<C>> {
    const unit = this.#begin();
    const changed = unit.change(current, change);
    if (changed.meta.generation === current.meta.generation) return changed;
    await this.#commit(operation, unit);
    this.#own.set(name(current.meta.kind, current.meta.id), changed as unknown as Resource); // as above
    return changed;
  }

  #current<C extends KindName>(kind: C, id: string): ReadonlyResource<C> | undefined {
    const own = this.#own.get(name(kind, id)) as ReadonlyResource<C> | undefined; // the name holds the kind
    const seen = this.#scope.world.get(kind, id);
    if (own === undefined) return seen;
    return seen !== undefined && seen.meta.desiredRevision >= own.meta.desiredRevision ? seen : own;
  }

  #begin(): Unit {
    this.signal.throwIfAborted();
    const unit = this.#scope.repository.begin();
    unit.guard(this.#scope.fence);
    return unit;
  }

  async #commit(operation: WriteOperation, unit: Unit): Promise<void> {
    this.#written = committed(await unit.commit());
    this.#scope.wrote(operation);
  }

  #mayWrite(kind: KindName): void {
    if (!this.#scope.children.has(kind)) this.#undeclared('writes', kind);
  }

  #undeclared(does: string, kind: KindName): never {
    throw new TypeError(`Controller ${this.#scope.controller} ${does} a kind that it did not declare: ${kind}`);
  }
}

function name(kind: KindName, id: string): string {
  return `${kind}/${id}`;
}

function isRef(ref: { kind: string; id: string }, it: ReadonlyResource): boolean {
  return ref.kind === it.meta.kind && ref.id === it.meta.id;
}

/** Makes the draft equal to `value`, in place. */
function replace<T extends object>(draft: T, value: T): void {
  for (const key of Object.keys(draft)) if (!Object.hasOwn(value, key)) Reflect.deleteProperty(draft, key);
  Object.assign(draft, structuredClone(value));
}
