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

/** Keys of the markers of all that the object belongs to. */
function populated({ meta, desired }: ReadonlyResource): string[] {
  const places = Object.entries(definitionOf(meta.kind).populates ?? {});
  return places.flatMap(([kind, idOf]) => {
    const id = idOf(desired as DesiredOf<KindName>); // only read
    return id === undefined ? [] : [keys.population(meta.tenant, kind, id)];
  });
}
