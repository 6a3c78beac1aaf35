import type { TenantView } from './mirror.ts';
import type { BackedUp } from './new-backup.ts';
import type { ReadonlyResource } from './resource.ts';

/** What a schedule backs up: its database, its volume, or all volumes that its application mounts. */
export function targetsOf(
  { desired: { of } }: ReadonlyResource<'backup_schedule'>,
  view: Pick<TenantView, 'get'>,
): readonly BackedUp[] {
  switch (of.kind) {
    case 'database': {
      const it = view.get('database', of.id);
      return it === undefined ? [] : [{ kind: 'database', it }];
    }
    case 'volume':
      return asVolumes([of.id], view);
    case 'application': {
      const mounts = view.get('application', of.id)?.desired.mounts ?? [];
      return asVolumes([...new Set(mounts.map(({ volume_id }) => volume_id))], view);
    }
  }
}

function asVolumes(ids: readonly string[], view: Pick<TenantView, 'get'>): readonly BackedUp[] {
  return ids.flatMap((id) => {
    const it = view.get('volume', id);
    return it === undefined ? [] : [{ kind: 'volume' as const, it }];
  });
}
