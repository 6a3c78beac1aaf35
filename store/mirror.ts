import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../time/clock.ts';
import type { Connections } from './connections.ts';
import type { HeldRemovals } from './held-removals.ts';
import type { KindName } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';
import type { Revision } from './revision.ts';
import type { SealComparer } from './seal.ts';
import type { IsSame } from './sealed-equal.ts';
import type { Store } from './store.ts';
import type { Usage } from './usage.ts';

/** A change of one object, desired or observed. `initial`: it was there when the mirror first filled. */
export interface ObjectChange {
  tenant: string;
  kind: KindName;
  id: string;
  before?: ReadonlyResource;
  after?: ReadonlyResource;
  revision: Revision;
  initial: boolean;
  /** Which of the two records changed. */
  part: 'desired' | 'observed';
}

/** A change of a key that is no object: a live agent, a replica, a leader, a tenant, a ring of events. */
export interface KeyChange {
  key: string;
  before?: string;
  after?: string;
  revision: Revision;
  initial: boolean;
}

/**
 * One tenant's objects. Lists are in the order of creation, and never change after they were returned. A holder of the
 * view cannot address an object of another tenant.
 */
export interface TenantView {
  readonly tenant: string;
  /** Compares secrets of the tenant. A mirror that has no keys knows only ciphertexts. */
  readonly isSame: IsSame;
  get<K extends KindName>(kind: K, id: string): ReadonlyResource<K> | undefined;
  /** Objects of that kind under that value of one of its declared indexes, or of the implicit `owner` and `label`. */
  by<K extends KindName>(kind: K, index: string, value: string): readonly ReadonlyResource<K>[];
  list<K extends KindName>(kind: K): readonly ReadonlyResource<K>[];
  /** Ids of objects in the store that the view does not show: a newer release wrote them, this one cannot read them. */
  unreadable(kind: KindName): readonly string[];
  /** The live session of a server's agent. */
  agent(server: string): LiveAgent | undefined;
  /** Removals that are held on a server since the store was rewound. */
  heldRemovals(server: string): HeldRemovals | undefined;
  /** The record of the connections of a server's agent. */
  connections(server: string): Connections | undefined;
}

export interface LiveAgent {
  replica: string;
  session: string;
  /** Revision at which the session was written: the fence of everything that it reports. */
  epoch: Revision;
  machineId: string;
  bootId?: string;
  agentVersion?: string;
  runtime?: string;
  runtimeVersion?: string;
  /** RFC 3339: when the session began. */
  since?: string;
  /** What its release understands beyond the first; absent: the replica that admitted it did not record that. */
  capabilities?: readonly string[];
  /** Capabilities that the operator of the machine switched off. */
  forbids?: readonly string[];
  /** Why its container engine cannot be used; `reason` is CamelCase. */
  engineTrouble?: { reason: string; message: string };
  /** What is wrong around it although it answers; each `reason` is CamelCase. */
  engineWarnings?: readonly { reason: string; message: string }[];
  /** Why the update that was asked for at that time failed; `reason` is CamelCase. */
  updateFailure?: { version: string; requestedAt: string; reason: string; message: string };
  /** Sessions of different machines keep replacing each other: one is a copy of the other. */
  conflict?: boolean;
}

/**
 * The copy of the whole store that every process keeps: one watch, one `applied` revision.
 *
 * States: empty → listing (pages of one revision, into a buffer) → swap → watching. Unavailable while listing → the same
 * page again, with fewer keys (see `Pages`). Unavailable while watching → watch again from
 * `applied + 1` with jittered backoff. Compacted or Rewound → list again, compare, emit only real differences, swap.
 * While it watches, it is compared with the store from time to time: differences are corrected and reported as changes.
 * It cannot stop without its owner: the loop ends by `close` alone.
 */
export interface Mirror {
  /** Characters of the keys and values that watches have delivered so far: shows how fast the history grows. */
  readonly received: number;
  /** 0 until the mirror is filled, and after a rewinding of the store until it is filled again. */
  readonly applied: Revision;
  /** Resolves after the first swap. Nothing reconciles and `/readyz` is 503 before. */
  readonly ready: Promise<void>;
  readonly isReady: boolean;
  tenant(name: string): TenantView;
  tenants(): readonly string[];
  /** The use of the store by tenant, project and user. For reading only. */
  readonly usage: Usage;
  /** Value and revision of a key that is no object. */
  key(key: string): { value: string; revision: Revision } | undefined;
  /** Keys that are no objects, under a prefix. */
  keysUnder(prefix: string): readonly { key: string; value: string; revision: Revision }[];
  /** Resolves when everything up to that revision is applied; rejects when the signal aborts. */
  reached(revision: Revision, signal: AbortSignal): Promise<void>;
  /**
   * Calls `listener` for each changed record in the order of revisions, when all of its revision is applied. A listener
   * that is added before `ready` gets every object as `initial`; a later subscriber reads the content first. The
   * returned function ends the subscription.
   */
  subscribe(listener: (change: ObjectChange) => void): () => void;
  subscribeKeys(listener: (change: KeyChange) => void): () => void;
  close(): Promise<void>;
}

export interface MirrorOptions {
  store: Store;
  clock: Clock;
  log: Logger;
  registry?: Registry;
  /** What views compare secrets with; absent: by their ciphertexts. */
  seals?: SealComparer;
  /** Objects are frozen at every depth, so that a reader that changes one fails at once. Default true. */
  freeze?: boolean;
  /** Between 0 and 1; spreads the attempts of several processes. */
  random?: () => number;
  /** Longest time between two comparisons with the whole store; absent: it is never compared. */
  checkEveryMs?: number;
}
