import { slugOf } from '../../store/kinds/internal-id.ts';
import type { TenantView } from '../../store/mirror.ts';
import { conflicting } from '../ground/api-error.ts';

/**
 * The DNS name that an application has by default: a slug of its name that is free in the environment. `also` has names that
 * the same request gives to others; `self` is the application, if it is there already.
 */
export function newHostName(
  view: TenantView,
  environmentId: string,
  name: string,
  { also = new Set(), self }: { also?: ReadonlySet<string>; self?: string } = {},
): string {
  const slug = slugOf(name);
  const taken = namesIn(view, environmentId, self);
  const isFree = (text: string): boolean => text !== 'localhost' && !taken.has(text) && !also.has(text);
  let free = slug;
  for (let suffix = 2; !isFree(free); suffix += 1) free = `${slug}-${suffix}`;
  return free;
}

/** Requires that no other application and no database of the environment answers to the name. @throws ApiError CONFLICT */
export function requireHostName(view: TenantView, environmentId: string, hostName: string, self?: string): void {
  const holder = namesIn(view, environmentId, self).get(hostName);
  if (holder === undefined) return;
  const message = `${holder} of the environment answers to ${hostName} already: choose another host_name`;
  throw conflicting(message, [{ field: 'host_name', reason: 'taken', message }]);
}

/** The DNS names of the applications and databases of an environment, with words for who has them. */
function namesIn(view: TenantView, environmentId: string, self: string | undefined): Map<string, string> {
  const others = view.by('application', 'environment', environmentId).filter(({ meta }) => meta.id !== self);
  return new Map([
    ...others.flatMap(({ desired: { name, internal_id, host_name } }) =>
      [internal_id, host_name].flatMap((one) => (one === undefined ? [] : [[one, `Application ${name}`] as const])),
    ),
    ...view
      .by('database', 'environment', environmentId)
      .map(({ desired: { name, internal_id } }) => [internal_id, `Database ${name}`] as const),
  ]);
}
