import type { KindName } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** Narrows an object of any kind to one kind. */
export function isKind<K extends KindName>(it: ReadonlyResource, kind: K): it is ReadonlyResource<K> {
  return it.meta.kind === kind;
}
