import type { Clock } from '../time/clock.ts';
import { committed, describeFailure, holderOf } from './commit-failure.ts';
import { definitionOf } from './definition.ts';
import { conflict, conflictReason } from './errors.ts';
import { keys } from './keys.ts';
import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';
import { expectTenant, observation } from './observation.ts';
import { decodeDesired, decodeObserved } from './record.ts';
import type { Codec } from './record.ts';
import type { Condition, Meta, Observed, ReadonlyResource, Resource } from './resource.ts';
import type { Revision } from './revision.ts';
import type { Entry, Guard, Store } from './store.ts';
import { beginUnit } from './unit.ts';
import type { CommittableUnit } from './unit-of-work.ts';

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
