import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { KeyMeaning } from '../../store/keys.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { AnyObject, ConditionInput, ReadonlyResource, Ref } from '../../store/resource.ts';
import type { Guard } from '../../store/store.ts';

/**
 * What an object waits for, in words that follow "waits for" and are shown to users: who or what, and what it is to do.
 * It begins in lower case and ends without a full stop, which is a law of the status.
 */
export type Because = `${string} to ${string}`;

/** The outcome of a reconcile. There is no boolean "requeue": every outcome names its reason. */
export type Next =
  /** Nothing to do until something changes. */
  | { settled: true }
  /** Look again after that many milliseconds. */
  | { again: number; because: Because }
  /** A change of these objects is needed; such a change wakes the object. */
  | { waitingFor: readonly Ref[]; because: Because }
  /** Retrying cannot help before the generation changes. */
  | { stalled: { reason: string; message: string } };

export interface Verdict<K extends KindName> {
  /** The whole observed value. The runtime compares, stamps generation and times, and writes at most once. */
  observed: ObservedOf<K>;
  /** Domain conditions, `Ready` among them. The runtime adds `Reconciling` and `Stalled` from `next`. */
  conditions: readonly ConditionInput[];
  next: Next;
}

/**
 * Which objects a change of another kind wakes. `wakes.ts` makes them of a declaration. A wake that throws loses
 * nothing: see `FailedWakes`.
 */
export interface Wake {
  kind: KindName;
  /** Ids of the controller's kind to reconcile, given the other object before and after its change. */
  ids(change: { before?: ReadonlyResource; after?: ReadonlyResource }, view: TenantView): readonly string[];
}

/**
 * The loop of one kind: its only writer of `observed`, and of the desired state of the children that it owns.
 *
 * Guarantees of the runtime: one reconcile per object at a time; a change during a run causes exactly one more; reads
 * include the loop's own earlier writes; every write is fenced by the leader's epoch; a thrown error is retried with
 * backoff and shown as a condition. Assumption: `reconcile` is idempotent, since a crash may end it anywhere and it is
 * repeated.
 */
export interface Controller<K extends KindName> {
  /** Name of the controller, of its finalizer, and in the labels of the metrics. */
  readonly name: string;
  readonly kind: K;
  /** Runs at once. Default: `limits.queue.concurrency`. */
  readonly concurrency?: number;
  /**
   * Of a controller whose runs wait for hosts, machines or buckets that tenants chose, which may hang: by what an object
   * shares the places, such as its project. One tenant then takes half of `concurrency` at most and one share of it a
   * third, see `FairPlaces`, and the runs take no place of other controllers.
   */
  shareOf?(it: ReadonlyResource<K>): string;
  /** Kinds that `ctx.view` may read besides K; others throw. */
  readonly reads: readonly KindName[];
  /** Kinds whose desired state it may write. */
  readonly children: readonly KindName[];
  readonly wakes: readonly Wake[];
  /** Types of the notifications that it may send; others throw. A kind that can fail has one, or the reason for none. */
  readonly notifies?: readonly string[] | { readonly never: string };
  /** Objects of K to reconcile when a key that is no object changes, such as the live session of an agent. */
  keyWakes?(key: KeyMeaning): { tenant: string; id: string } | undefined;
  /** A term begins: memory of an earlier term may be outdated, since another replica may have led meanwhile. */
  begin?(): void;
  reconcile(it: ReadonlyResource<K>, ctx: Context): Promise<Verdict<K>>;
  /** Called while deletion is requested and the controller's finalizer is present. Only `released: true` removes it. */
  finalize?(it: ReadonlyResource<K>, ctx: Context): Promise<Verdict<K> & { released: boolean }>;
}

export interface EventInput {
  type: 'normal' | 'warning';
  /** CamelCase, stable: events aggregate by it. */
  reason: string;
  /** Id of the part that it happened to, if each part counts separately. */
  about?: string;
  message: string;
}

export interface NotificationInput {
  type: string;
  severity: 'info' | 'warning' | 'error';
  title: string;
  message: string;
}

/** What a controller may put into one transaction. */
export type ChildUnit = Pick<Unit, 'create' | 'change' | 'requestDelete' | 'require'>;

/** What a reconcile may use. Every write is one fenced, guarded transaction. */
export interface Context {
  readonly tenant: string;
  readonly view: TenantView;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Fails once another replica leads: for transactions that others send on behalf of the run. */
  readonly fence: Guard;
  /**
   * For how many milliseconds the object's condition `name` has held without a break, by the runs of this controller
   * that asked; 0 while it does not hold and at the first run that finds it to hold. A run that does not ask changes
   * nothing. It is forgotten with the object.
   *
   * Caveat: it is kept in the memory of this leader, on its monotonic clock. A new leader begins to count anew, so that
   * a deadline that is judged by it can be exceeded by as long as the leader before had counted.
   */
  since(name: string, isOn: boolean): number;
  /**
   * The time by which objects expire, in milliseconds since 1970: see `expiryTime`. By it a controller judges the age of what
   * it removes for good, as a wall clock that is ahead would remove it at once.
   */
  expiryTime(): number;
  /**
   * Creates the child or changes its desired state; writes nothing if that is equal. Ids are deterministic, so that a
   * repetition after a crash finds the first child. @throws conflict, which the runtime retries silently.
   */
  ensure<C extends KindName>(
    kind: C,
    id: string,
    desired: DesiredOf<C>,
    owner: ReadonlyResource,
  ): Promise<ReadonlyResource<C>>;
  /**
   * Changes the desired state of an existing object, if it differs; `undefined` if the object is gone. `audited`: by
   * this name the change is in the audit log, as one of a user would be.
   */
  amend<C extends KindName>(
    kind: C,
    id: string,
    change: (draft: DesiredOf<C>) => void,
    options?: { audited: string },
  ): Promise<ReadonlyResource<C> | undefined>;
  /** Requests deletion. Idempotent; does nothing for an absent object. */
  retire(kind: KindName, id: string): Promise<void>;
  /**
   * Removes the finalizer of another component that will never release it (a deleted server's agent).
   * @throws conflict if `asLongAs` was changed meanwhile.
   */
  waive(kind: KindName, id: string, finalizer: string, options?: { asLongAs: ReadonlyResource }): Promise<void>;
  /**
   * Several writes of children as one transaction, all or nothing; `write` is called once. @throws conflict, as `ensure`;
   * TooLarge above the limits of the store. `audited`: as of `amend`.
   */
  transact(write: (unit: ChildUnit) => void, options?: { audited: string }): Promise<void>;
  /** Appends to the object's events: aggregated by reason, at most one write per 10 s and reason. */
  event(of: AnyObject, event: EventInput): void;
  /**
   * Notifies every user who may see the object. Deduplicated by `key`. To be awaited before the verdict is returned.
   * @throws unavailable, after which some have it: the repeated run notifies the others.
   */
  notify(of: ReadonlyResource, key: string, notification: NotificationInput): Promise<void>;
}
