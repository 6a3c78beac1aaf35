import type { DesiredOf } from '../store/kinds/kinds.ts';
import type { Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { Random } from './random.ts';

type Told = Pick<DesiredOf<'notification'>, 'type' | 'title' | 'message'>;

/** Tells a user something about a project, in the transaction that makes it true. */
export function tellUser(
  unit: Unit,
  random: Random,
  user: string,
  { meta, desired }: ReadonlyResource<'project'>,
  told: Told,
): void {
  unit.create('notification', random.id(), {
    ...told,
    user_id: user,
    severity: 'info',
    resource: { kind: 'project', id: meta.id, name: desired.name, project_id: meta.id },
    read: false,
  });
}
