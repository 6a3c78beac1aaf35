import { definitionOf } from './definition.ts';
import { isKindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';

/**
 * The instant at which the object expires, in milliseconds of the wall clock; `undefined`: not yet known, or never, as while
 * something uses it. Pure.
 */
export function expiryOf(it: ReadonlyResource, view: Pick<TenantView, 'by'>): number | undefined {
  const { keep } = definitionOf(it.meta.kind);
  const end = 'until' in keep ? keep.until(it) : undefined;
  return end === undefined || isUsed(it, view) ? undefined : end;
}

function isUsed({ meta: { kind, id } }: ReadonlyResource, view: Pick<TenantView, 'by'>): boolean {
  const users = definitionOf(kind).keep.usedBy ?? [];
  return users.some((user) => isKindName(user) && view.by(user, kind, id).length > 0);
}
