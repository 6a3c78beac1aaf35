import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Random } from '../ground/random.ts';

type NotificationText = Pick<DesiredOf<'notification'>, 'type' | 'title' | 'message'>;

/**
 * Adds a notification about a project to the transaction that makes it true. Only members see notifications of a
 * project: with `isOutside` the notification names the project but does not belong to it, for a user who is not or no
 * longer a member.
 */
export function notifyUser(
  unit: Unit,
  random: Random,
  user: string,
  { meta, desired }: ReadonlyResource<'project'>,
  { isOutside = false, ...text }: NotificationText & { isOutside?: boolean },
): void {
  unit.create('notification', random.id(), {
    ...text,
    user_id: user,
    severity: 'info',
    resource: { kind: 'project', id: meta.id, name: desired.name, ...(!isOutside && { project_id: meta.id }) },
    read: false,
  });
}
