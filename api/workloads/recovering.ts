import { databaseWindows, recoveryTo } from '../../store/recovery-window.ts';
import type { Recovery, Window } from '../../store/recovery-window.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField } from '../ground/api-error.ts';

/** What a restore that is a recovery knows of it. */
export type WantedRecovery = NonNullable<DesiredOf<'restore'>['recovery']>;

/**
 * The way of a database to an instant.
 *
 * @throws ApiError BAD_REQUEST, with the windows, if it is in none
 */
export function requireRecovery(
  view: TenantView,
  { meta, desired }: ReadonlyResource<'database'>,
  targetTime: string,
  holds: boolean,
): { backup: ReadonlyResource<'backup'>; recovery: WantedRecovery } {
  const windows = databaseWindows(view, meta.id);
  const target = Date.parse(targetTime);
  const way = recoveryTo(windows, target);
  if (way === undefined) throw badField('target_time', 'outside_window', outside(desired.name, windows));
  return { backup: way.backup, recovery: wanted(way, target, holds) };
}

/** The way to the instant of a base backup itself, which needs no window; `undefined`: its archive is gone. */
export function recoveryOfBase(view: TenantView, backup: ReadonlyResource<'backup'>): WantedRecovery | undefined {
  const archive = view.get('wal_archive', backup.desired.archive_id ?? '');
  const log = backup.observed?.log;
  if (archive === undefined || log === undefined) return undefined;
  const way = { backup, archive, first: log.first_segment, last: log.last_segment };
  return wanted(way, Date.parse(log.stopped_at), false);
}

function wanted({ archive, first, last }: Recovery, target: number, holds: boolean): WantedRecovery {
  return {
    archive_id: archive.meta.id,
    target_time: new Date(target).toISOString(),
    first_segment: first,
    last_segment: last,
    holds,
  };
}

/** Most windows that a message names. */
const mostNamed = 5;

function outside(name: string, windows: readonly Window[]): string {
  if (windows.length === 0)
    return `${name} cannot be recovered to any instant yet: its writes are not archived, or its first base backup is not complete`;
  const words = windows
    .slice(-mostNamed)
    .map(({ from, to }) => `${new Date(from).toISOString()} to ${new Date(to).toISOString()}`);
  return `Must be within the recovery window: ${words.join(', or ')}`;
}
