import type { KindName } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/**
 * What was observed of an object as it is wanted now. A report on what was wanted before says nothing of what comes
 * after it: neither success nor failure.
 */
export function upToDate<K extends KindName>(it: ReadonlyResource<K>): ReadonlyResource<K>['observed'] {
  const { meta, observed } = it as ReadonlyResource; // an object of any kind is an object
  return observed !== undefined && observed.observedGeneration >= meta.generation ? it.observed : undefined;
}
