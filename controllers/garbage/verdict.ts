import { isKindName } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { OwnerRef, ReadonlyResource, Ref } from '../../store/resource.ts';
import { isKind } from '../runtime/kind-guard.ts';
import { limits } from '../runtime/limits.ts';

/** Why an object should be deleted. */
export type Verdict =
  /** The blocking owner is gone or, where that suffices, being deleted. */
  | { cause: 'owner'; owner: OwnerRef }
  /** There are enough newer objects of its kind. `holder` must neither be deleted nor change meanwhile. */
  | { cause: 'surplus'; holder: Ref }
  /** It has expired. */
  | { cause: 'expired' };

/** Whether and why an object should be deleted, by the view. Pure; `now` is the wall clock in milliseconds. */
export function judge(it: ReadonlyResource, view: TenantView, now: number): Verdict | undefined {
  if (it.meta.deletionRequestedAt !== undefined) return undefined;
  const owner = it.meta.owners.find(
    (ref) => ref.blocks && isKindName(ref.kind) && !holds(it, view.get(ref.kind, ref.id)),
  );
  if (owner !== undefined) return { cause: 'owner', owner: { ...owner } };
  if (isExpired(it, now)) return { cause: 'expired' };
  if (isKind(it, 'deployment')) return judgeDeployment(it, view);
  if (isKind(it, 'operation')) return judgeOperation(it, view);
  if (isKind(it, 'session')) {
    const all = view.by('session', 'user', it.desired.user_id);
    const isSurplus = all.indexOf(it) < all.length - limits.garbage.sessionsPerUser;
    return isSurplus ? { cause: 'surplus', holder: { kind: 'user', id: it.desired.user_id } } : undefined;
  }
  if (isKind(it, 'notification')) {
    const all = view.by('notification', 'user', it.desired.user_id);
    const isSurplus = all.indexOf(it) < all.length - limits.notifications.perUser;
    return isSurplus ? { cause: 'surplus', holder: { kind: 'user', id: it.desired.user_id } } : undefined;
  }
  return undefined;
}

/** Whether the owner keeps the object. A member stays until the project is gone, to see what is left of it. */
function holds(it: ReadonlyResource, owner: ReadonlyResource | undefined): boolean {
  return isKind(it, 'member') && owner?.meta.kind === 'project' ? true : lives(owner);
}

function lives(owner: ReadonlyResource | undefined): boolean {
  return owner !== undefined && owner.meta.deletionRequestedAt === undefined;
}

function isExpired(it: ReadonlyResource, now: number): boolean {
  if (isKind(it, 'session')) return Date.parse(it.desired.expires_at) <= now;
  if (isKind(it, 'service_key')) {
    const { expires_at } = it.desired;
    return expires_at !== undefined && Date.parse(expires_at) + limits.garbage.expiredKeysKeepMs <= now;
  }
  if (isKind(it, 'login_code')) {
    const { sent, known } = it.desired;
    const keepMs = known.length > 0 ? limits.garbage.knownPlacesKeepMs : limits.garbage.loginCodesKeepMs;
    return Date.parse(sent.at(-1)?.at ?? it.meta.updatedAt) + keepMs <= now;
  }
  if (isKind(it, 'invite')) {
    const end = it.desired.accepted_at ?? it.desired.cancelled_at ?? it.desired.expires_at;
    return Date.parse(end) + limits.garbage.invitesKeepMs <= now;
  }
  if (isKind(it, 'notification')) return Date.parse(it.meta.createdAt) + limits.notifications.keepMs <= now;
  if (!isKind(it, 'operation') || it.observed?.finished_at === undefined) return false;
  return Date.parse(it.observed.finished_at) + limits.garbage.operationsKeepMs <= now;
}

function judgeDeployment(it: ReadonlyResource<'deployment'>, view: TenantView): Verdict | undefined {
  const application = view.get('application', it.desired.application_id);
  if (application === undefined) return undefined;
  const all = view.by('deployment', 'application', application.meta.id);
  return surplusDeployments(application, all).includes(it)
    ? { cause: 'surplus', holder: { kind: 'application', id: application.meta.id } }
    : undefined;
}

/** Keeps the newest ended operations of an application, for the user who requested them. */
function judgeOperation(it: ReadonlyResource<'operation'>, view: TenantView): Verdict | undefined {
  const { application_id: id } = it.desired;
  if (id === undefined || it.observed?.finished_at === undefined) return undefined;
  const all = view.by('operation', 'application', id);
  const isSurplus = all.indexOf(it) < all.length - limits.garbage.operationsPerApplication;
  return isSurplus ? { cause: 'surplus', holder: { kind: 'application', id } } : undefined;
}

/**
 * The deployments of an application beyond the newest 20. Never the one that it converges to, that serves, that
 * succeeded before (a rollback returns to it), or that has not ended. Pure.
 */
export function surplusDeployments(
  application: ReadonlyResource<'application'>,
  deployments: readonly ReadonlyResource<'deployment'>[],
): ReadonlyResource<'deployment'>[] {
  if (deployments.length <= limits.garbage.deploymentsPerApplication) return [];
  const newestFirst = deployments.toSorted((a, b) => b.desired.number - a.desired.number);
  const current = application.observed?.current_deployment_id;
  const previous = newestFirst.find((it) => it.observed?.phase === 'succeeded' && it.meta.id !== current);
  const kept = new Set([application.desired.deployment_id, current, previous?.meta.id]);
  return newestFirst
    .slice(limits.garbage.deploymentsPerApplication)
    .filter((it) => !kept.has(it.meta.id) && hasEnded(it));
}

function hasEnded({ observed }: ReadonlyResource<'deployment'>): boolean {
  switch (observed?.phase) {
    case 'succeeded':
    case 'failed':
    case 'cancelled':
    case 'superseded':
      return true;
    case 'queued':
    case 'building':
    case 'deploying':
    case undefined:
      return false;
  }
}

/** Objects whose verdict may differ after a change of `changed`: itself, what it owns, and its siblings in a history. */
export function suspects(
  changed: { before?: ReadonlyResource; after?: ReadonlyResource },
  view: TenantView,
  kinds: readonly KindName[],
): ReadonlyResource[] {
  const { before, after } = changed;
  const it = after ?? before;
  if (it === undefined) return [];
  const { id } = it.meta;
  const found: ReadonlyResource[] = after === undefined ? [] : [after];
  if (!lives(after))
    for (const kind of kinds) found.push(...(view.by(kind, 'owner', id) as readonly ReadonlyResource[])); // of any kind
  if (isKind(it, 'deployment'))
    found.push(...(view.by('deployment', 'application', it.desired.application_id) as readonly ReadonlyResource[])); // as above
  // several new ones may come before the oldest is gone
  if (isKind(it, 'session') && before === undefined)
    found.push(...beyond(view.by('session', 'user', it.desired.user_id), limits.garbage.sessionsPerUser));
  if (isKind(it, 'notification') && before === undefined)
    found.push(...beyond(view.by('notification', 'user', it.desired.user_id), limits.notifications.perUser));
  if (isKind(it, 'operation') && it.desired.application_id !== undefined) {
    const all = view.by('operation', 'application', it.desired.application_id);
    found.push(...beyond(all, limits.garbage.operationsPerApplication));
  }
  return found;
}

/** All but the newest `most`. */
function beyond<K extends KindName>(all: readonly ReadonlyResource<K>[], most: number): ReadonlyResource[] {
  return all.slice(0, Math.max(0, all.length - most)) as readonly object[] as ReadonlyResource[]; // of any kind
}
