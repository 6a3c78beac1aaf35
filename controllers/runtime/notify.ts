import type { Logger } from 'pino';
import { committed } from '../../store/commit-failure.ts';
import { conflictReason, isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Guard } from '../../store/store.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { NotificationInput } from './controller.ts';
import { limits } from './limits.ts';

export interface NotifyDeps {
  view: (tenant: string) => TenantView;
  repository: (tenant: string) => Repository;
  onWritten: () => void;
}

/**
 * Notifies the owner and the members of the object's project, and every administrator. The id of a notification follows
 * from its user and its key, so a notification is stored only once. Throws `unavailable` where the store does not answer, so
 * that the run is repeated before its verdict is stored: a stored verdict notifies no more. Any other failure is logged.
 */
export class Notifier {
  readonly #deps: NotifyDeps;
  /** `tenant/user/key` of sent notifications, oldest first. */
  readonly #sent = new Set<string>();

  constructor(deps: NotifyDeps) {
    this.#deps = deps;
  }

  async notify(
    fence: Guard,
    of: ReadonlyResource,
    key: string,
    { log, ...notification }: NotificationInput & { log: Logger },
  ): Promise<void> {
    const view = this.#deps.view(of.meta.tenant);
    const projectId = projectOf(of);
    for (const user of recipients(view, projectId)) {
      try {
        await this.#notifyUser(fence, user, of, projectId, key, notification);
      } catch (error) {
        if (isUnavailable(error)) throw error;
        log.warn(
          { err: error, kind: of.meta.kind, id: of.meta.id, user },
          'Cannot store a notification: the user does not get it',
        );
      }
    }
  }

  async #notifyUser(
    fence: Guard,
    user: string,
    of: ReadonlyResource,
    projectId: string | undefined,
    key: string,
    notification: NotificationInput,
  ): Promise<void> {
    const { tenant, kind, id } = of.meta;
    const sentKey = `${tenant}/${user}/${key}`;
    const notificationId = uuidv5(user, key);
    if (this.#sent.has(sentKey)) return;
    if (this.#deps.view(tenant).get('notification', notificationId) === undefined) {
      const unit = this.#deps.repository(tenant).begin();
      unit.guard(fence);
      unit.guard({ key: keys.desired(tenant, 'user', user), is: 'present' });
      const project = projectId === undefined ? {} : { project_id: projectId };
      unit.create('notification', notificationId, {
        ...notification,
        user_id: user,
        resource: { kind, id, name: nameOf(of), ...project },
        read: false,
      });
      const result = await unit.commit();
      if (result.committed) this.#deps.onWritten();
      else refuse(result);
    }
    this.#remember(sentKey);
  }

  #remember(sentKey: string): void {
    this.#sent.add(sentKey);
    if (this.#sent.size <= limits.notifications.remembered) return;
    for (const oldest of this.#sent) {
      this.#sent.delete(oldest);
      return;
    }
  }
}

/** Throws the reason of a refusal, unless the notification is stored already. */
function refuse(result: Parameters<typeof committed>[0]): void {
  try {
    committed(result);
  } catch (error) {
    if (conflictReason(error)?.why !== 'exists') throw error;
  }
}

function recipients(view: TenantView, projectId: string | undefined): ReadonlySet<string> {
  const inProject = new Set<string>();
  if (projectId !== undefined) {
    const owner = view.get('project', projectId)?.desired.owner_id;
    if (owner !== undefined) inProject.add(owner);
    for (const { desired } of view.by('member', 'project', projectId)) inProject.add(desired.user_id);
  }
  const users = view.list('user').filter(({ desired }) => !desired.disabled);
  return new Set(
    users.filter(({ meta, desired }) => desired.role !== 'user' || inProject.has(meta.id)).map(({ meta }) => meta.id),
  );
}

function projectOf({ meta, desired }: ReadonlyResource): string | undefined {
  if (meta.kind === 'project') return meta.id;
  return 'project_id' in desired && typeof desired.project_id === 'string' ? desired.project_id : undefined;
}

function nameOf({ meta, desired }: ReadonlyResource): string {
  return 'name' in desired ? desired.name : meta.id;
}
