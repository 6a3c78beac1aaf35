import { copiedFrom, isUnfinishedClone } from '../../store/copying.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror, ObjectChange, TenantView } from '../../store/mirror.ts';
import { isDeleting, isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Amount, Usage } from '../../store/usage.ts';
import type { Scope } from './scope.ts';

type Environment = ReadonlyResource<'environment'>;

/** What clones that are under way will store. */
export interface Clones extends Disposable {
  /** The amount that counts in a scope until the clones are complete. */
  of(view: TenantView, scope: Scope): Amount;
}

interface UnderWay {
  tenant: string;
  project: string;
  adds: Amount;
}

/**
 * Counts each clone that the mirror shows with all that its source had when it was first seen, until it is complete or
 * is to be deleted: on every replica, and after a restart. What of it is copied already counts twice until then.
 */
export function createClones(mirror: Pick<Mirror, 'subscribe' | 'tenant' | 'tenants' | 'usage'>): Clones {
  const underWay = new Map<string, UnderWay>();

  const take = ({
    tenant,
    id,
    after,
  }: Pick<ObjectChange, 'tenant' | 'id'> & { after: Environment | undefined }): void => {
    const key = `${tenant}/${id}`;
    if (after === undefined || !isUnfinishedClone(after) || isDeleting(after)) underWay.delete(key);
    else if (!underWay.has(key)) {
      const adds = contentAmount(mirror.tenant(tenant), mirror.usage, after);
      underWay.set(key, { tenant, project: after.desired.project_id, adds });
    }
  };

  for (const tenant of mirror.tenants())
    for (const after of mirror.tenant(tenant).list('environment')) take({ tenant, id: after.meta.id, after });
  const unsubscribe = mirror.subscribe(({ tenant, kind, id, after }) => {
    if (kind === 'environment') take({ tenant, id, after: isKind(after, 'environment') ? after : undefined });
  });

  return {
    of(view, scope) {
      const sum = { bytes: 0, objects: 0 };
      for (const it of underWay.values()) {
        if (!countsIn(it, view, scope)) continue;
        sum.bytes += it.adds.bytes;
        sum.objects += it.adds.objects;
      }
      return sum;
    },
    [Symbol.dispose]: unsubscribe,
  };
}

function countsIn({ tenant, project }: UnderWay, view: TenantView, scope: Scope): boolean {
  if (scope.of === 'installation') return true;
  if (tenant !== view.tenant) return false;
  switch (scope.of) {
    case 'tenant':
      return true;
    case 'project':
      return project === scope.id;
    case 'user':
      return view.get('project', project)?.desired.owner_id === scope.id;
  }
}

/** What a clone is going to copy. */
export function contentAmount(view: TenantView, usage: Usage, { desired }: Environment): Amount {
  const sum = { bytes: 0, objects: 0 };
  for (const { meta } of copiedFrom(view, desired.clone_of?.environment_id ?? '')) {
    sum.bytes += usage.sizeOf(keys.desired(view.tenant, meta.kind, meta.id));
    sum.objects += 1;
  }
  return sum;
}
