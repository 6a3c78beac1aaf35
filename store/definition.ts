import type { z } from 'zod';
import type { KindDefinition } from './kinds/define.ts';
import { kinds } from './kinds/kinds.ts';
import type { DesiredOf, KindName, ObservedOf } from './kinds/kinds.ts';

export type Definition<K extends KindName> = KindDefinition<K, z.ZodType<DesiredOf<K>>, z.ZodType<ObservedOf<K>>>;

/** The declaration of a kind, for code that is generic in the kind. */
export function definitionOf<K extends KindName>(kind: K): Definition<K> {
  return kinds[kind] as unknown as Definition<K>; // an indexed access is not correlated with its key by the type system
}

/** Whether objects of the kind have an observed state; the others have a desired state only. */
export function isObserved(kind: KindName): boolean {
  return Object.keys(kinds[kind].observed.shape).length > 0;
}
