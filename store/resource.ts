import { z } from 'zod';
import type { DeepReadonly } from './deep-readonly.ts';
import type { Revision } from './revision.ts';
import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';

const ConditionStatus = z.enum(['true', 'false', 'unknown']);
type ConditionStatus = z.infer<typeof ConditionStatus>;

/** One fact about an object, as in Kubernetes. `message` is stable: no times, no attempt numbers. */
export const Condition = z.object({
  type: z.string(),
  status: ConditionStatus,
  reason: z.string(),
  message: z.string(),
  observedGeneration: z.int(),
  /** RFC 3339; moves only when status or reason change. */
  changedAt: z.string(),
});
export type Condition = z.infer<typeof Condition>;

/** A condition as a controller gives it; the runtime adds the generation and the time of change. */
export type ConditionInput = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export const OwnerRef = z.object({
  kind: z.string(),
  id: z.string(),
  /** The object is deleted when this owner is gone or deleting. */
  blocks: z.boolean(),
});

export interface OwnerRef {
  kind: KindName;
  id: string;
  blocks: boolean;
}

export const CopyOf = z.object({ id: z.string(), revision: z.int() });
export type CopyOf = z.infer<typeof CopyOf>;

/** A pointer to an object of the same tenant. */
export interface Ref {
  kind: KindName;
  id: string;
}

export interface Meta<K extends KindName = KindName> {
  tenant: string;
  kind: K;
  id: string;
  /** Grows by one at each change of `desired`. */
  generation: number;
  /** Revision of the desired record: REST's `resource_version` and `ETag`. */
  desiredRevision: Revision;
  /** Revision that created it: gives the order of creation, which no clock does as well. Absent until then. */
  createdRevision?: Revision;
  /** Revision of the observed record; absent while nothing was observed. */
  observedRevision?: Revision;
  /** Wall clock, RFC 3339, for display only. */
  createdAt: string;
  updatedAt: string;
  /** Set once, never unset. */
  deletionRequestedAt?: string;
  /** Names of the controllers that must release the object before it can go. */
  finalizers: string[];
  owners: OwnerRef[];
  labels: Record<string, string>;
  /** The object that it is a copy of, and the revision of its desired record that was copied. */
  copyOf?: CopyOf;
}

export type Observed<O> = O & { observedGeneration: number; conditions: Condition[] };

/** An object as it is read: desired and observed state joined, each from its own key. */
export interface Resource<K extends KindName = KindName> {
  meta: Meta<K>;
  desired: DesiredOf<K>;
  observed?: Observed<ObservedOf<K>>;
}

export type ReadonlyMeta<K extends KindName = KindName> = DeepReadonly<Omit<Meta, 'kind'>> & { readonly kind: K };

/** An object that is shared by its readers, as the mirror keeps it. */
export interface ReadonlyResource<K extends KindName = KindName> {
  readonly meta: ReadonlyMeta<K>;
  readonly desired: DeepReadonly<DesiredOf<K>>;
  readonly observed?: DeepReadonly<Observed<ObservedOf<K>>>;
}

/** An object of any kind, for functions that read no state: a generic `ReadonlyResource<K>` is one, too. */
export interface AnyObject {
  readonly meta: ReadonlyMeta;
}

/** Narrows an object of some kind to one kind. */
export function isKind<K extends KindName>(it: ReadonlyResource | undefined, kind: K): it is ReadonlyResource<K> {
  return it?.meta.kind === kind;
}

/** What the functions below read. */
interface Deletable {
  readonly meta: { readonly deletionRequestedAt?: string | undefined };
}

/** Whether the deletion of the object was requested; it is still there until what holds it has released it. */
export function isDeleting({ meta }: Deletable): boolean {
  return meta.deletionRequestedAt !== undefined;
}

/** Whether the object is there and is not being deleted. */
export function isStaying<T extends Deletable>(it: T | undefined): it is T {
  return it !== undefined && !isDeleting(it);
}
