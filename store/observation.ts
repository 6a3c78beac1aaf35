import { definitionOf } from './definition.ts';
import { jsonEqual } from './json-equal.ts';
import { keys } from './keys.ts';
import type { KindName, ObservedOf } from './kinds/kinds.ts';
import { encodeObserved, succeed } from './record.ts';
import type { AnyObject, Observed, ReadonlyResource } from './resource.ts';
import type { Guard, Write } from './store.ts';

/** A write of an observed record, and the guard that the record is as it was read. */
export interface Observation {
  guard: Guard;
  write: Write;
}

/** The write of an observed state; `undefined` if nothing differs. @throws ZodError if the value is not of the kind. */
export function observation<K extends KindName>(
  it: ReadonlyResource<K>,
  observed: Observed<ObservedOf<K>>,
): Observation | undefined {
  const { tenant, kind, id, observedRevision } = it.meta;
  const definition = definitionOf(kind);
  const { observedGeneration, conditions } = observed;
  const value = { ...definition.observed.parse(observed), observedGeneration, conditions };
  if (jsonEqual(value, it.observed)) return undefined;
  succeed(it.observed, value);
  const key = keys.observed(tenant, kind, id);
  return {
    guard: observedRevision === undefined ? { key, is: 'absent' } : { key, is: 'at', revision: observedRevision },
    write: { put: key, value: encodeObserved(definition, value) },
  };
}

/** @throws Error if the object is of another tenant: a writer for one tenant writes for no other. */
export function expectTenant(it: AnyObject, tenant: string): void {
  if (it.meta.tenant !== tenant)
    throw new Error(`Cannot write an object of another tenant than ${tenant}: ${it.meta.tenant}`);
}
