import type { KindName } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/**
 * The observed state of an object, if it is of the present generation. A report on an earlier generation shows neither
 * success nor failure of the present one.
 */
export function upToDate<K extends KindName>(it: ReadonlyResource<K>): ReadonlyResource<K>['observed'] {
  const { meta, observed } = it as ReadonlyResource; // an object of any kind is an object
  return observed !== undefined && observed.observedGeneration >= meta.generation ? it.observed : undefined;
}
