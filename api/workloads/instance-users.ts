import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isStaying } from '../../store/resource.ts';
import { usersInWords, usersOutside } from '../../store/users-outside.ts';
import { conflicting } from '../ground/api-error.ts';

/** Most volumes and databases that a message names. */
const mostNamed = 5;

type Instance = ReadonlyResource<'template_instance'>;
type Used = { it: ReadonlyResource<'volume'> | ReadonlyResource<'database'>; users: ReturnType<typeof usersOutside> };

/** The volumes and databases of the instance that others use, which its deletion would take, each with its users. */
export function usedOutside(view: TenantView, { meta: { id } }: Instance): Used[] {
  return [...view.by('volume', 'template_instance', id), ...view.by('database', 'template_instance', id)]
    .filter(isStaying)
    .map((it) => ({ it, users: usersOutside(view, it) }))
    .filter(({ users }) => users.length > 0);
}

/** @throws ApiError CONFLICT naming what others use of the instance, by default all of it */
export function requireUnusedOutside(view: TenantView, instance: Instance, used = usedOutside(view, instance)): void {
  if (used.length === 0) return;
  const named = used
    .slice(0, mostNamed)
    .map(({ it, users }) => `${it.meta.kind} ${it.desired.name} (${usersInWords(users)})`);
  const more = used.length - named.length;
  throw conflicting(
    `Others use what template instance ${instance.desired.name} would be deleted with: ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}. Unbind the volumes there and change the variables that refer to the databases, or leave all volumes and databases behind by keep_data=true`,
  );
}
