import { jsonEqual } from '../../store/json-equal.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Wake } from './controller.ts';

/** Names the objects to reconcile by the object that changed: as it is now, or as it was before its removal. */
type Ids<C extends KindName> = (it: ReadonlyResource<C>, view: TenantView) => readonly string[];

/** Every change of an object of `kind` wakes: its creation, each change of one of its records, its removal. */
export function onChild<C extends KindName>(kind: C, ids: Ids<C>): Wake {
  return wakeOf(kind, (before, after) => [after ?? before], ids);
}

/** The removal of an object of `kind` wakes. */
export function onGone<C extends KindName>(kind: C, ids: Ids<C>): Wake {
  return wakeOf(kind, (before, after) => [after === undefined ? before : undefined], ids);
}

/**
 * A change of what `pick` returns wakes, as do the creation and the removal: the objects that the changed object names
 * now, and those that it named before. Values are compared as JSON.
 */
export function onChange<C extends KindName>(kind: C, pick: (it: ReadonlyResource<C>) => unknown, ids: Ids<C>): Wake {
  return wakeOf(
    kind,
    (before, after) => {
      const isSame = before !== undefined && after !== undefined && jsonEqual(pick(before), pick(after));
      return isSame ? [] : [before, after];
    },
    ids,
  );
}

/** @param decisive returns the states of the object by which to name the others; none: the change wakes nothing */
function wakeOf<C extends KindName>(
  kind: C,
  decisive: (before?: ReadonlyResource<C>, after?: ReadonlyResource<C>) => readonly (ReadonlyResource<C> | undefined)[],
  ids: Ids<C>,
): Wake {
  const ofKind = (it: ReadonlyResource | undefined): ReadonlyResource<C> | undefined =>
    it !== undefined && isKind(it, kind) ? it : undefined;
  return {
    kind,
    ids: ({ before, after }, view) => {
      const states = decisive(ofKind(before), ofKind(after)).filter((it) => it !== undefined);
      return [...new Set(states.flatMap((it) => ids(it, view)))];
    },
  };
}
