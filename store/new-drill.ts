import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import { hasRestoreEnded } from './kinds/restore.ts';
import type { BackedUp } from './new-backup.ts';
import { volumeOf } from './new-database-volume.ts';
import type { ReadonlyResource } from './resource.ts';
import { besideVolume } from './volume-beside.ts';

/** A restore of a backup for trial, as it is asked for at an instant, and the new volume that it goes into. */
export function newDrill(
  backup: ReadonlyResource<'backup'>,
  of: BackedUp,
  volumeId: string,
  now: Date,
): { restore: DesiredOf<'restore'>; volume: DesiredOf<'volume'> } {
  const { meta, desired } = of.it;
  const { project_id, environment_id, server_id, name } = desired;
  return {
    restore: {
      project_id,
      place: { environment_id, server_id },
      backup_id: backup.meta.id,
      of: { kind: of.kind, id: meta.id },
      volume_id: volumeId,
      name,
      is_new: false,
      is_drill: true,
      switch_requested: false,
      requested_at: now.toISOString(),
      cancel_requested: false,
    },
    volume: of.kind === 'database' ? volumeOf(meta.id, of.it.desired) : besideVolume(of.it.desired, volumeId),
  };
}

type Restore = ReadonlyResource<'restore'>;

/** The restores of an object, or on a server, that have not ended. */
export function goingOn(view: Pick<TenantView, 'by'>, index: 'of' | 'server', id: string): Restore[] {
  return view.by('restore', index, id).filter(({ observed }) => !hasRestoreEnded(observed?.phase));
}

/** The restores of a database or a volume that have not ended: at most one that is no drill. */
export function goingOf(view: Pick<TenantView, 'by'>, of: string): { restore: Restore | undefined; drills: Restore[] } {
  const going = goingOn(view, 'of', of);
  return {
    restore: going.find((it) => !isDrill(it)),
    drills: going.filter(isDrill),
  };
}

export function isDrill({ desired }: { readonly desired: DeepReadonly<DesiredOf<'restore'>> }): boolean {
  return desired.is_drill === true;
}
