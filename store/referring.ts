import type { TenantView } from './mirror.ts';
import { referredObjects } from './referable.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type View = Pick<TenantView, 'get' | 'by'>;

/** The other applications that refer to this object, or to one of these `attributes` of it. */
export function applicationsReferringTo(
  view: View,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): ReadonlyResource<'application'>[] {
  return view
    .by('application', 'environment', it.desired.environment_id)
    .filter((other) => isStaying(other) && other.meta.id !== it.meta.id)
    .filter((other) => referredObjects(view, other, it.meta.kind, attributes).includes(it.meta.id));
}

/** The functions that refer to this object, or to one of these `attributes` of it. */
export function functionsReferringTo(
  view: View,
  it: ReadonlyResource<'application'> | ReadonlyResource<'database'>,
  attributes?: readonly string[],
): ReadonlyResource<'function'>[] {
  return view
    .by('function', 'environment', it.desired.environment_id)
    .filter((other) => isStaying(other) && referredObjects(view, other, it.meta.kind, attributes).includes(it.meta.id));
}
