import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { touchedBy } from '../../store/audit/mention.ts';
import { auditWrite } from '../../store/audit/record.ts';
import { committed } from '../../store/commit-failure.ts';
import { definitionOf } from '../../store/definition.ts';
import { conflict } from '../../store/errors.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { Repository } from '../../store/repo.ts';
import type { CommittableUnit } from '../../store/unit-of-work.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { AnyObject, OwnerRef, ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { Guard } from '../../store/store.ts';
import type { ChildUnit, Context, EventInput, NotificationInput } from './controller.ts';
import { Failure } from './failure.ts';
import type { WriteOperation } from './metrics.ts';

/** What all runs of one controller in one tenant share. */
export interface ContextScope {
  readonly controller: string;
  readonly children: ReadonlySet<KindName>;
  /** Kinds whose finalizers may be waived: all that the controller declares. */
  readonly declared: ReadonlySet<KindName>;
  readonly repository: Repository;
  /** The view of the controller, whose reads are checked against its declaration. */
  readonly view: TenantView;
  /** The view of the runtime itself, whose reads are not checked. */
  readonly world: TenantView;
  /** Resolves when the reads show everything up to that revision. */
  readonly reached: (revision: Revision, signal: AbortSignal) => Promise<void>;
  readonly fence: Guard;
  readonly clock: Clock;
  since(key: string, name: string, isOn: boolean): number;
  readonly expiryTime: () => number;
  wrote(operation: WriteOperation): void;
  event(of: AnyObject, event: EventInput): void;
  notify(of: ReadonlyResource, key: string, notification: NotificationInput & { log: Logger }): Promise<void>;
  /** Types of the notifications that the controller declares. */
  readonly notifies: ReadonlySet<string>;
}

/** The context of one run: it keeps the highest revision that the run wrote, for the next run's read barrier. */
export class RunContext implements Context {
  readonly signal: AbortSignal;
  readonly #scope: ContextScope;
  readonly #key: string;
  /** Revisions of the objects that this run wrote: the next write of one waits until the mirror shows its revision. */
  readonly #own = new Map<string, Revision>();
  #written: Revision | undefined;
  readonly log: Logger;

  /** @param log of this run, with its key */
  constructor(scope: ContextScope, key: string, signal: AbortSignal, log: Logger) {
    this.#scope = scope;
    this.#key = key;
    this.signal = signal;
    this.log = log;
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

  get fence(): Guard {
    return this.#scope.fence;
  }

  since(name: string, isOn: boolean): number {
    return this.#scope.since(this.#key, name, isOn);
  }

  expiryTime(): number {
    return this.#scope.expiryTime();
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
  ): Promise<ReadonlyResource<C>> {
    this.#mayWrite(kind);
    const current = await this.#current(kind, id);
    if (current === undefined) return this.#create(kind, id, desired, owner);
    if (!current.meta.owners.some((ref) => isRef(ref, owner)))
      throw new Failure('NotOwned', `Cannot change ${kind} as it belongs to another owner: ${id}`);
    if (jsonEqual(desired, current.desired)) return current;
    return this.#change('ensure', current, (draft) => replace(draft, desired));
  }

  async amend<C extends KindName>(
    kind: C,
    id: string,
    change: (draft: DesiredOf<C>) => void,
    options?: { audited: string },
  ): Promise<ReadonlyResource<C> | undefined> {
    this.#mayWrite(kind);
    const current = await this.#current(kind, id);
    return current === undefined ? undefined : this.#change('amend', current, change, options?.audited);
  }

  async retire(kind: KindName, id: string): Promise<void> {
    this.#mayWrite(kind);
    const current = await this.#current(kind, id);
    if (!isStaying(current)) return;
    const unit = this.#begin();
    unit.requestDelete(current);
    await this.#commit('retire', unit, [[kind, id]]);
  }

  async waive(kind: KindName, id: string, finalizer: string, options?: { asLongAs: ReadonlyResource }): Promise<void> {
    if (!this.#scope.declared.has(kind)) this.#undeclared('waives finalizers of', kind);
    const current = await this.#current(kind, id);
    if (current === undefined || !current.meta.finalizers.includes(finalizer)) return;
    const unit = this.#begin();
    if (options !== undefined) unit.require(options.asLongAs);
    unit.release(current, finalizer);
    await this.#commit('waive', unit, [[kind, id]]);
  }

  async transact(write: (unit: ChildUnit) => void, options?: { audited: string }): Promise<void> {
    const unit = this.#begin();
    const written: [KindName, string][] = [];
    const note = (kind: KindName, id: string): void => {
      this.#mayWrite(kind);
      written.push([kind, id]);
    };
    write({
      create: (kind, id, desired, options) => {
        note(kind, id);
        return unit.create(kind, id, desired, options);
      },
      change: (it, change) => {
        note(it.meta.kind, it.meta.id);
        return unit.change(it, change);
      },
      requestDelete: (it) => {
        note(it.meta.kind, it.meta.id);
        unit.requestDelete(it);
      },
      require: (it) => unit.require(it),
    });
    const [first] = unit.changes().objects;
    if (options !== undefined && first !== undefined) this.#audit(options.audited, first.it.meta, unit);
    await this.#commit('transact', unit, written);
  }

  event(of: AnyObject, event: EventInput): void {
    this.#scope.event(of, event);
  }

  async notify(of: ReadonlyResource, key: string, notification: NotificationInput): Promise<void> {
    const { controller, notifies } = this.#scope;
    if (!notifies.has(notification.type))
      throw new Error(`Controller ${controller} sends a notification that it does not declare: ${notification.type}`);
    await this.#scope.notify(of, key, { ...notification, log: this.log });
  }

  /** Creates a child. Guards its owners, so that it is not created while one of them is being deleted. */
  async #create<C extends KindName>(
    kind: C,
    id: string,
    desired: DesiredOf<C>,
    owner: ReadonlyResource,
  ): Promise<ReadonlyResource<C>> {
    const derived = definitionOf(kind).owners?.(desired) ?? [];
    const isDerived = derived.some((ref) => isRef(ref, owner));
    const added: OwnerRef[] = isDerived ? [] : [{ kind: owner.meta.kind, id: owner.meta.id, blocks: true }];
    const unit = this.#begin();
    const parents = derived.filter((ref) => !isRef(ref, owner));
    const living = parents.map((ref) => this.#parent(ref.kind as KindName, ref.id)); // a definition names kinds only
    for (const parent of [owner, ...living]) {
      if (isDeleting(parent))
        throw conflict(`Cannot create ${kind} as its ${parent.meta.kind} is being deleted: ${parent.meta.id}`);
      unit.require(parent);
    }
    const made = unit.create(kind, id, desired, { owners: added });
    await this.#commit('ensure', unit, [[kind, id]]);
    return readonly(made);
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
    audited?: string,
  ): Promise<ReadonlyResource<C>> {
    const unit = this.#begin();
    const changed = unit.change(current, change);
    if (changed.meta.generation === current.meta.generation) return current;
    if (audited !== undefined) this.#audit(audited, current.meta, unit);
    await this.#commit(operation, unit, [[current.meta.kind, current.meta.id]]);
    return readonly(changed);
  }

  async #current<C extends KindName>(kind: C, id: string): Promise<ReadonlyResource<C> | undefined> {
    const written = this.#own.get(name(kind, id));
    if (written !== undefined) await this.#scope.reached(written, this.signal);
    return this.#scope.world.get(kind, id);
  }

  /** Adds the audit record of the unit's changes to the unit itself; `of`: the first object that it changes. */
  #audit(route: string, { id, desiredRevision }: ReadonlyResource['meta'], unit: CommittableUnit): void {
    const at = this.clock.now().toISOString();
    const { objects: changed } = unit.changes();
    const [of] = changed.map(({ it }) => ('project_id' in it.desired ? it.desired.project_id : undefined));
    const project = of === undefined ? {} : { project_id: of };
    const objects = touchedBy(changed);
    const record = { v: 1, at, route, result: 'ok', tenant: this.tenant, ...project, objects } as const;
    unit.write(auditWrite(record, uuidv5(id, `${route} ${desiredRevision}`)));
  }

  #begin(): CommittableUnit {
    this.signal.throwIfAborted();
    const unit = this.#scope.repository.begin();
    unit.guard(this.#scope.fence);
    return unit;
  }

  async #commit(
    operation: WriteOperation,
    unit: CommittableUnit,
    written: readonly [KindName, string][],
  ): Promise<void> {
    this.#written = committed(await unit.commit());
    for (const [kind, id] of written) this.#own.set(name(kind, id), this.#written);
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

function readonly<C extends KindName>(it: Resource<C>): ReadonlyResource<C> {
  return it as unknown as ReadonlyResource<C>; // readonly is wider, which the type system cannot see for any C
}

/** Makes the draft equal to `value`, in place. */
function replace<T extends object>(draft: T, value: T): void {
  for (const key of Object.keys(draft)) if (!Object.hasOwn(value, key)) Reflect.deleteProperty(draft, key);
  Object.assign(draft, plainCopy(value));
}
