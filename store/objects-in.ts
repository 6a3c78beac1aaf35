import { definitionOf } from './definition.ts';
import { kinds } from './kinds/kinds.ts';
import type { KindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';

/** Kinds whose objects are in an object of that kind: they populate it, and an index of its name finds them. */
export function kindsIn(place: KindName): readonly KindName[] {
  return (Object.keys(kinds) as KindName[]) // the keys of `kinds` are the names
    .filter((kind) => {
      const { populates = {}, indexes = {} } = definitionOf(kind);
      return Object.hasOwn(populates, place) && Object.hasOwn(indexes, place);
    });
}

/** What is on a server, or in an environment or a project: by kind, and in the order of creation. */
export function objectsIn(view: TenantView, place: KindName, id: string): ReadonlyResource[] {
  return kindsIn(place).flatMap((kind) => view.by(kind, place, id) as readonly ReadonlyResource[]); // of any kind
}
