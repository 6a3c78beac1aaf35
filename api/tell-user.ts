import type { DesiredOf } from '../store/kinds/kinds.ts';
import type { Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { Random } from './random.ts';

type Told = Pick<DesiredOf<'notification'>, 'type' | 'title' | 'message'>;

/**
 * Tells a user something about a project, in the transaction that makes it true. What is of a project only its people
 * hear: what is said to somebody who is not or no more one of them is of none.
 */
export function tellUser(
  unit: Unit,
  random: Random,
  user: string,
  { meta, desired }: ReadonlyResource<'project'>,
  { isOutside = false, ...told }: Told & { isOutside?: boolean },
): void {
  unit.create('notification', random.id(), {
    ...told,
    user_id: user,
    severity: 'info',
    resource: { kind: 'project', id: meta.id, name: desired.name, ...(!isOutside && { project_id: meta.id }) },
    read: false,
  });
}
