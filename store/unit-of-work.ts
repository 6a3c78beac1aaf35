import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';
import type { Condition, CopyOf, OwnerRef, ReadonlyResource, Resource } from './resource.ts';
import type { Guard, TxnResult, Write } from './store.ts';

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
   * Writes the observed record if it differs, with the guards of `Repository.observe` but without a fence: add
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
   * record or a key that is no object. `guarded`: how many objects it only guards.
   */
  changes(): { objects: UnitChange[]; guarded: number; isEmpty: boolean };
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
