import { definitionOf } from './definition.ts';
import { keys } from './keys.ts';
import { kinds } from './kinds/kinds.ts';
import type { DesiredOf, KindName } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';

/** Markers of the objects that an object enters: by its creation, or by a change of the field that names them. */
export function enteredBy(base: ReadonlyResource | undefined, next: ReadonlyResource): string[] {
  const before = base === undefined ? [] : populated(base);
  return populated(next).filter((key) => !before.includes(key));
}

/** Whether objects of that kind hold others, and therefore have a marker of their own. */
export function isPopulated(kind: KindName): boolean {
  return Object.values(kinds).some(
    (definition) => 'populates' in definition && Object.hasOwn(definition.populates, kind),
  );
}

/** Ids of the objects of a kind that the object belongs to: of the servers that it lies on, for example. */
export function placesOf({ meta, desired }: ReadonlyResource, kind: string): readonly string[] {
  const { populates, indexes } = definitionOf(meta.kind);
  const index = populates?.[kind];
  const ids = index === undefined ? undefined : indexes?.[index]?.(desired as DesiredOf<KindName>, undefined); // only read
  return ids === undefined ? [] : typeof ids === 'string' ? [ids] : ids;
}

/** Keys of the markers of all that the object belongs to. */
function populated(it: ReadonlyResource): string[] {
  const { tenant, kind } = it.meta;
  return Object.keys(definitionOf(kind).populates ?? {}).flatMap((place) =>
    placesOf(it, place).map((id) => keys.population(tenant, place, id)),
  );
}
