import { definitionOf } from './definition.ts';
import { keys } from './keys.ts';
import { kinds } from './kinds/kinds.ts';
import type { DesiredOf, KindName } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';

/** Markers of the objects that an object enters or takes more of: by its creation, or by a change of such a field. */
export function enteredBy(base: ReadonlyResource | undefined, next: ReadonlyResource): string[] {
  const before = new Set(base && populated(base).flatMap(({ marker, takes }) => takes.map((it) => `${marker} ${it}`)));
  return populated(next)
    .filter(({ marker, takes }) => takes.some((it) => !before.has(`${marker} ${it}`)))
    .map(({ marker }) => marker);
}

/** Markers of all that an object belongs to, which its creation moves. */
export function markersOf(it: ReadonlyResource): string[] {
  return populated(it).map(({ marker }) => marker);
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

/** Markers of all that the object belongs to, each with what the object takes of that: its room (`''`), and what is named. */
function populated(it: ReadonlyResource): { marker: string; takes: string[] }[] {
  const { tenant, kind } = it.meta;
  const { populates = {}, takes } = definitionOf(kind);
  return Object.keys(populates).flatMap((place) => {
    const taken = ['', ...(takes?.[place]?.(it.desired as DesiredOf<KindName>) ?? [])]; // only read
    return placesOf(it, place).map((id) => ({ marker: keys.population(tenant, place, id), takes: taken }));
  });
}
