import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';

/** The schedule that the fields of a volume are of: its first one. */
export function scheduleOfVolume(
  view: Pick<TenantView, 'by'>,
  id: string,
): ReadonlyResource<'backup_schedule'> | undefined {
  return view
    .by('backup_schedule', 'of', id)
    .toSorted((a, b) => (a.meta.createdAt + a.meta.id < b.meta.createdAt + b.meta.id ? -1 : 1))[0];
}
