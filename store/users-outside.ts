import type { InstanceChildKind } from './kinds/template-instance.ts';
import type { TenantView } from './mirror.ts';
import { applicationsReferringTo, functionsReferringTo } from './referring.ts';
import { isKind, isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type View = Pick<TenantView, 'get' | 'by'>;
type Workload = ReadonlyResource<'application'> | ReadonlyResource<'function'>;

/**
 * What uses a volume or a database of a template instance and is no part of that: it mounts the one, or its variables refer
 * to the other. None for what has no data.
 */
export function usersOutside(view: View, it: ReadonlyResource<InstanceChildKind>): Workload[] {
  const { template_instance_id: instance } = it.desired;
  return usersOf(view, it).filter((user) => isStaying(user) && user.desired.template_instance_id !== instance);
}

function usersOf(view: View, it: ReadonlyResource<InstanceChildKind>): Workload[] {
  if (isKind(it, 'volume'))
    return [...view.by('application', 'volume', it.meta.id), ...view.by('function', 'volume', it.meta.id)];
  if (isKind(it, 'database')) return [...applicationsReferringTo(view, it), ...functionsReferringTo(view, it)];
  return [];
}

/** Most users that a message names. */
const mostNamed = 5;

/** Such as `application site, function mail`. */
export function usersInWords(users: readonly Workload[]): string {
  const names = users.slice(0, mostNamed).map(({ meta, desired }) => `${meta.kind} ${desired.name}`);
  const more = users.length - names.length;
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '');
}
