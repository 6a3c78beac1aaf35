import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';
import type { OwnerRef, Resource, ReadonlyResource, Condition } from './resource.ts';
import type { Revision } from './revision.ts';
import type { Guard, TxnResult, Write } from './store.ts';

export interface CreateOptions {
  labels?: Record<string, string>;
  /** Owners beside the ones that the kind derives from the desired state. */
  owners?: OwnerRef[];
}

/** One transaction in the making: several objects, all or nothing. */
export interface Unit {
  /** Guards: the object and its unique names are absent. @throws ZodError if `desired` is not of the kind. */
  create<K extends KindName>(kind: K, id: string, desired: DesiredOf<K>, options?: CreateOptions): Resource<K>;
  /** Guards: the object is at the revision that was read. Moves unique names. Equal: writes nothing. */
  change<K extends KindName>(it: ReadonlyResource<K>, change: (draft: DesiredOf<K>) => void): Resource<K>;
  /** Replaces the labels; like `change` it guards and elides, but the generation stays. */
  label<K extends KindName>(it: ReadonlyResource<K>, labels: Record<string, string>): Resource<K>;
  /** Sets `deletionRequestedAt`; an object without finalizers goes at once. Idempotent. */
  requestDelete(it: ReadonlyResource): void;
  /** Removes a finalizer; the last one of an object whose deletion was requested deletes its records and names. */
  release(it: ReadonlyResource, finalizer: string): void;
  /**
   * Writes the observed record if it differs; guards as {@link Repository.observe}, without a fence: that is one
   * `guard` of the unit.
   */
  observe<K extends KindName>(
    it: ReadonlyResource<K>,
    observed: ObservedOf<K> & { observedGeneration: number; conditions: Condition[] },
  ): void;
  /** Guards that the object is as it was read (a parent that must not start deleting meanwhile). */
  require(it: ReadonlyResource): void;
  guard(guard: Guard): void;
  write(write: Write): void;
  /** Nothing to write: no transaction, `committed` with the highest revision that was read. */
  commit(): Promise<TxnResult>;
}

/** Reads and writes objects of one tenant; it cannot address another. */
export interface Repository {
  readonly tenant: string;
  /** Linearizable. */
  get<K extends KindName>(kind: K, id: string): Promise<Resource<K> | undefined>;
  /** Id behind a unique name; linearizable. */
  idByName(kind: KindName, scope: string, name: string): Promise<string | undefined>;
  begin(): Unit;
  /**
   * Reads, changes a draft, parses, compares; equal: no write. Tries again on conflict (5 times) unless `expect` is
   * given, which is the desired revision that the caller saw. @throws conflict; `undefined` if the object is gone.
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
