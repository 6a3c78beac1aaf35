import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { keyOf } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import { isTenantWide, visibleProjects } from './authorize.ts';

type Notification = ReadonlyResource<'notification'>;

/** The caller's notifications about objects that the caller may see now, oldest first. */
export function visibleNotifications(principal: Principal, view: TenantView): Notification[] {
  return view.by('notification', 'user', principal.user.meta.id).filter(isVisibleTo(principal, view));
}

/**
 * Whether a notification of the caller is about an object that the caller may see. A user who has left a project gets
 * no more about it, and a key that is narrowed to a project gets nothing else.
 */
export function isVisibleTo(principal: Principal, view: TenantView): (it: Notification) => boolean {
  const visible = visibleProjects(principal, view);
  const isNarrowed = keyOf(principal)?.desired.project_id !== undefined;
  return ({ desired: { resource } }) => {
    if (resource?.project_id !== undefined) return visible === 'all' || visible.has(resource.project_id);
    return !isNarrowed && (resource?.kind !== 'server' || isTenantWide(principal));
  };
}
