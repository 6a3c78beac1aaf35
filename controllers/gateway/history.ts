import { eraKey } from '../../store/era.ts';
import type { Store } from '../../store/store.ts';

/**
 * Begins an era of the store's history; every replica does so at its start, before it accepts agents. `era` must be
 * new. An agent keeps the era beside its desired set. A store that was restored to an older state knows none of the
 * eras that began after it, however high its revisions are meanwhile.
 */
export async function beginEra(store: Store, era: string): Promise<void> {
  await store.txn({ if: [], then: [{ put: eraKey, value: era }] });
}

/**
 * Names the present history of the store: its incarnation and its era. Linearizable. `undefined`: no era has begun, so
 * nothing proves that an agent's set is of this history. @throws Unavailable
 */
export async function presentHistory(store: Store): Promise<string | undefined> {
  const era = await store.get(eraKey);
  return era === undefined ? undefined : `${store.incarnation}/${era.value}`;
}
