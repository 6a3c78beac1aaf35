import type { Clock } from './clock.ts';
import { committed, describeFailure, holderOf } from './commit-failure.ts';
import { definitionOf } from './definition.ts';
import { conflict, conflictReason } from './errors.ts';
import { keys } from './keys.ts';
import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';
import { expectTenant, observation } from './observation.ts';
import { decodeDesired, decodeObserved } from './record.ts';
import type { Codec } from './record.ts';
import type { Condition, CopyOf, Meta, Observed, OwnerRef, ReadonlyResource, Resource } from './resource.ts';
import type { Revision } from './revision.ts';
import type { Entry, Guard, Store, TxnResult, Write } from './store.ts';
import { beginUnit } from './unit.ts';

/** What a unit does to one object. */
export interface UnitChange {
  /** The object after the unit. */
  it: ReadonlyResource;
  action: 'create' | 'change' | 'delete';
  /** Names of the fields that differ; see `changedFields`. None for an object that is deleted. */
  fields: string[];
}

/** What a unit does to one object, beside the object as it was read. */
export interface ObjectEffect extends Pick<UnitChange, 'it' | 'action'> {
  before?: ReadonlyResource;
}

/** What a transaction is about to write. */
export interface UnitEffect {
  objects: readonly ObjectEffect[];
  writes: readonly Write[];
}

export interface CreateOptions {
  labels?: Record<string, string>;
  /** Owners beside the ones that the kind derives from the desired state. */
  owners?: OwnerRef[];
  copyOf?: CopyOf;
}

/**
 * One transaction in the making: several objects, all or nothing.
 *
 * Calls on one object compose: each starts from what the earlier ones made of it. They return the same object, which
 * shows the state to come; its `desiredRevision` is the one that was read (0 for a new object) until the commit.
 */
export interface Unit {
  /** Guards: the object and its unique names are absent. @throws ZodError if `desired` is not of the kind. */
  create<K extends KindName>(kind: K, id: string, desired: DesiredOf<K>, options?: CreateOptions): Resource<K>;
  /** Guards: the object is at the revision that was read. Moves unique names. Writes nothing if nothing differs. */
  change<K extends KindName>(it: ReadonlyResource<K>, change: (draft: DesiredOf<K>) => void): Resource<K>;
  /** Replaces the labels. Like `change` it guards, and writes nothing if nothing differs; the generation stays. */
  label<K extends KindName>(it: ReadonlyResource<K>, labels: Record<string, string>): Resource<K>;
  /** Sets `deletionRequestedAt`; an object without finalizers is deleted at once. Idempotent. */
  requestDelete<K extends KindName>(it: ReadonlyResource<K>): void;
  /** Removes a finalizer; the last one of an object whose deletion was requested deletes its records and names. */
  release<K extends KindName>(it: ReadonlyResource<K>, finalizer: string): void;
  /**
   * Writes the observed record if it differs, with the guards of {@link Repository.observe} but without a fence: add
   * that by `guard`.
   */
  observe<K extends KindName>(
    it: ReadonlyResource<K>,
    observed: ObservedOf<K> & { observedGeneration: number; conditions: Condition[] },
  ): void;
  /** Guards that the object is as it was read (a parent that must not start deleting meanwhile). */
  require<K extends KindName>(it: ReadonlyResource<K>): void;
  /**
   * Guards that no other object enters this one from this call on. A mirror that is made fresh afterwards shows all
   * that will be in it at the commit. A unit that adds to it (see `populates` of a kind) must `require` it in turn.
   */
  holdPopulation<K extends KindName>(it: ReadonlyResource<K>): Promise<void>;
  guard(guard: Guard): void;
  write(write: Write): void;
  /**
   * What a commit would do now. `isEmpty`: it would write nothing. Without `objects` it may still write an observed
   * record or a key that is no object.
   */
  changes(): { objects: UnitChange[]; isEmpty: boolean };
}

/** A unit for the code that commits it. Code that only adds to a unit takes a {@link Unit}, which has no commit. */
export interface CommittableUnit extends Unit {
  /**
   * Sends the transaction. If there is nothing to write, it sends none and returns `committed` with the highest
   * revision that was read. `judge` gets what is about to be sent, in the same turn of the event loop; if it throws,
   * nothing is sent.
   */
  commit(judge?: (effect: UnitEffect) => void): Promise<TxnResult>;
}

/** Reads and writes objects of one tenant; it cannot address another. */
export interface Repository {
  readonly tenant: string;
  /** Linearizable. */
  get<K extends KindName>(kind: K, id: string): Promise<Resource<K> | undefined>;
  /** Id behind a unique name; linearizable. */
  idByName(kind: KindName, scope: string, name: string): Promise<string | undefined>;
  begin(): CommittableUnit;
  /**
   * Reads the object, changes and parses a draft, and writes it if it differs. Tries again on conflict (5 times) unless
   * `expect` is given, which is the desired revision that the caller saw. Returns `undefined` if the object is gone.
   * @throws conflict
   */
  change<K extends KindName>(
    kind: K,
    id: string,
    change: (draft: DesiredOf<K>, it: Resource<K>) => void,
    options?: { expect?: Revision; guards?: readonly Guard[] },
  ): Promise<Resource<K> | undefined>;
  /** Writes the observed record if it differs. Guards: it is at the revision of `it`, the desired record is present. */
  observe<K extends KindName>(
    it: ReadonlyResource<K>,
    observed: ObservedOf<K> & { observedGeneration: number; conditions: Condition[] },
    fence: readonly Guard[],
  ): Promise<{ revision: Revision; written: boolean }>;
}

const attempts = 5;

/** The repository of one tenant. */
export function openRepository(store: Store, tenant: string, clock: Clock): Repository {
  async function get<K extends KindName>(kind: K, id: string): Promise<Resource<K> | undefined> {
    const [desired, observed] = await Promise.all([
      store.get(keys.desired(tenant, kind, id)),
      store.get(keys.observed(tenant, kind, id)),
    ]);
    return desired && readResource(tenant, kind, id, desired, observed);
  }

  /** One attempt of `change`; `undefined` if the object is gone. @throws conflict */
  async function tryChange<K extends KindName>(
    it: Resource<K>,
    change: (draft: DesiredOf<K>, it: Resource<K>) => void,
    guards: readonly Guard[],
  ): Promise<Resource<K> | undefined> {
    const unit = beginUnit(store, tenant, clock);
    const next = unit.change(it as ReadonlyResource<K>, (draft) => change(draft, it)); // an optional field of a generic type
    for (const guard of guards) unit.guard(guard);
    const result = await unit.commit();
    if (!result.committed) {
      const failure = describeFailure(result);
      if (failure.why === 'gone' && failure.ref.kind === it.meta.kind && failure.ref.id === it.meta.id)
        return undefined;
    }
    committed(result);
    return next;
  }

  return {
    tenant,
    get,
    async idByName(kind, scope, name) {
      const entry = await store.get(keys.unique(tenant, kind, scope, name));
      return entry && holderOf(entry.value);
    },
    begin: () => beginUnit(store, tenant, clock),
    async change(kind, id, change, { expect, guards = [] } = {}) {
      for (let attempt = 1; ; attempt++) {
        const it = await get(kind, id);
        if (!it) return undefined;
        const ref = { kind, id };
        if (expect !== undefined && it.meta.desiredRevision !== expect)
          throw conflict(`Cannot change ${kind} as it is not at revision ${expect}: ${id}`, { why: 'changed', ref });
        try {
          return await tryChange(it, change, guards);
        } catch (error) {
          const reason = conflictReason(error);
          const again = reason?.why === 'changed' && reason.ref.kind === kind && reason.ref.id === id;
          if (!again || expect !== undefined || attempt > attempts) throw error;
        }
      }
    },
    async observe(it, observed, fence) {
      expectTenant(it, tenant);
      const { kind, id, desiredRevision, observedRevision } = it.meta;
      const change = observation(it, observed);
      if (!change) return { revision: observedRevision ?? desiredRevision, written: false };
      const present: Guard = { key: keys.desired(tenant, kind, id), is: 'present' };
      const result = await store.txn({ if: [...fence, present, change.guard], then: [change.write] });
      return { revision: committed(result), written: true };
    },
  };
}

function readResource<K extends KindName>(
  tenant: string,
  kind: K,
  id: string,
  desired: Entry,
  observed: Entry | undefined,
): Resource<K> {
  const definition = definitionOf(kind);
  const record = decodeDesired(definition, desired.value);
  const { modRevision: desiredRevision, createRevision: createdRevision } = desired;
  const meta: Meta<K> = { tenant, kind, id, desiredRevision, createdRevision, ...record.meta };
  if (!observed) return { meta, desired: record.desired };
  meta.observedRevision = observed.modRevision;
  const state = readObserved(definition, observed.value);
  return { meta, desired: record.desired, ...(state && { observed: state }) };
}

/** An observed record that cannot be read counts as nothing observed, so that its writer can replace it. */
function readObserved<D, O>(definition: Codec<D, O>, text: string): Observed<O> | undefined {
  try {
    return decodeObserved(definition, text);
  } catch {
    return undefined;
  }
}
