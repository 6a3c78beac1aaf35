import { definitionOf } from './definition.ts';
import { kinds } from './kinds/kinds.ts';
import type { KindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';

/** Kinds whose objects belong to objects of that kind: those that name it in `populates`. */
export function kindsIn(place: KindName): readonly KindName[] {
  return (Object.keys(kinds) as KindName[]) // the keys of `kinds` are the names
    .filter((kind) => definitionOf(kind).populates?.[place] !== undefined);
}

/**
 * All that belongs to an object by `populates`: what lies on a server, what an environment holds. By kind, and in the
 * order of creation. See `copiedFrom` for what a clone copies.
 */
export function objectsIn(view: TenantView, place: KindName, id: string): ReadonlyResource[] {
  return kindsIn(place).flatMap((kind) => {
    const index = definitionOf(kind).populates?.[place];
    return index === undefined ? [] : view.by(kind, index, id);
  });
}
