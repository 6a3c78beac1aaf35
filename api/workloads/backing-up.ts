import { cellOf } from '../../rules/verb-table.ts';
import { databaseVerbs } from '../../rules/database.ts';
import { engines } from '../../databases/engines.ts';
import { volumeVerbs } from '../../rules/volume.ts';
import type { BackedUp } from '../../store/new-backup.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { volumeStatus } from '../resources/volume.ts';
import { hasBackupEnded } from '../../store/kinds/backup.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { databaseStatus } from '../resources/database.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { referred } from './references.ts';

type Database = ReadonlyResource<'database'>;
type Destination = ReadonlyResource<'backup_destination'>;

/**
 * What each way to ask for a backup requires of its database or its volume.
 *
 * @throws ApiError CONFLICT if it is stopped or lost, if its engine has no backups, or if too many of it have not ended
 */
export function requireBackupRoom(view: TenantView, of: BackedUp): void {
  if (of.kind === 'database') requireBackups(of.it.desired.type);
  const cell =
    of.kind === 'database'
      ? cellOf(databaseVerbs, 'backup', { status: databaseStatus(of.it, view), run: of.it.desired.run })
      : cellOf(volumeVerbs, 'backup', { status: volumeStatus(of.it) });
  if (typeof cell === 'object' && 'no' in cell) throw conflicting(cell.no);
  if (of.kind === 'volume') requireOwnVolume(view, of.it);
  const all = view.by('backup', 'of', of.it.meta.id);
  const where = `The ${of.kind}`;
  requireRoom(all.length, countLimits.backupsPerObject, {
    where,
    what: 'backups',
    remedy: 'delete some of them, or give them an end by expires_at',
  });
  requireRoom(
    // the record of a deleted backup may wait for its bucket
    all.filter((it) => isStaying(it) && !hasBackupEnded(it.observed?.phase)).length,
    countLimits.activeBackupsPerObject,
    {
      where,
      what: 'backups that have not ended',
      remedy: 'wait until one has, or cancel it',
    },
  );
}

/** @throws ApiError CONFLICT for the volume of a database, which has backups of its own, and for one that a restore makes */
export function requireOwnVolume(view: TenantView, { meta, desired }: ReadonlyResource<'volume'>): void {
  const { database_id: id } = desired;
  if (id !== undefined) {
    const name = view.get('database', id)?.desired.name ?? id;
    throw conflicting(`The volume has the data of database ${name}: it goes with that one, and nothing else mounts it`);
  }
  const restore = view.by('restore', 'volume', meta.id).find(({ observed }) => !hasRestoreEnded(observed?.phase));
  if (restore !== undefined)
    throw conflicting(`Restore ${restore.meta.id} makes the volume: wait for its end, or cancel it`);
}

/** @throws ApiError CONFLICT for a volume of which a backup is being made */
export function requireUnread(view: TenantView, { meta }: ReadonlyResource<'volume'>): void {
  const backup = view.by('backup', 'of', meta.id).find((it) => isStaying(it) && !hasBackupEnded(it.observed?.phase));
  if (backup !== undefined)
    throw conflicting(`Backup ${backup.meta.id} of the volume has not ended: wait for its end, or cancel it`);
}

/** @throws ApiError CONFLICT if the engine has no backups */
export function requireBackups(type: Database['desired']['type']): void {
  if (engines[type].dump !== undefined) return;
  throw conflicting(`Backups of ${engines[type].word} are not supported yet: dump it by its own tools`);
}

/**
 * The destination of a new backup: the named one, else that of the first of `schedules`, else the only one.
 *
 * @throws ApiError NOT_FOUND, CONFLICT; BAD_REQUEST if none is named and there is not exactly one
 */
export function destinationFor(
  view: TenantView,
  id: string | null | undefined,
  schedules: readonly ReadonlyResource<'backup_schedule'>[] = [],
  field = 'destination_id',
): Destination {
  const named = id ?? schedules[0]?.desired.destination_id;
  if (named !== undefined) return referred(view, 'backup_destination', named, field);
  const all = view.list('backup_destination').filter(isStaying);
  const [only] = all;
  if (only !== undefined && all.length === 1) return only;
  const why = all.length === 0 ? 'there is none yet: an admin creates one' : `there are ${all.length}: name one`;
  throw badField(field, 'required', `${field} is required, as ${why}`);
}
