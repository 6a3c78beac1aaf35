import type { VNode } from 'preact';
import { call, page } from '../../api.ts';
import { allRestores } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import type { ObjectEvent, ObjectOf } from '../../model.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { lookOf } from '../../parts/status-words.ts';
import { Timeline } from '../../parts/timeline.tsx';
import type { TimelineEntry } from '../../parts/timeline.tsx';
import { bytesText } from '../../parts/units.ts';
import { changesOf } from '../application/changes-by-people.ts';
import { useBackupsOf } from '../backups/use-backups-of.ts';
import type { Database } from './tab-props.ts';

const readChanges = 100;

interface HappeningsProps {
  readonly it: Database;
  /** The newest so many. */
  readonly most: number;
}

/** One timeline of events, backups, restores and changes by people. */
export function Happenings({ it, most }: HappeningsProps): VNode {
  const { login } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const { backups } = useBackupsOf('database', it.id);
  const restores = useList(allRestores, 'restore').objects.filter(({ database_id: id }) => id === it.id);
  const observed = JSON.stringify([it.status, it.conditions]);
  const events = useRead(
    () => call(login, 'GET', '/api/v1/databases/{id}/events', { path: { id: it.id } }),
    [it.id, it.resource_version, observed],
  );
  // a reader who may not read the audit log sees the rest
  const changes = useRead(
    () =>
      page(login, '/api/v1/audit', { query: { id: it.id, limit: readChanges } }).then(
        ({ items }) => items,
        () => [],
      ),
    [it.id, it.generation],
  );
  const entries = [
    ...(events.data ?? []).map((one) => ofEvent(one)),
    ...backups.map((one) => ofBackup(one)),
    ...restores.map((one) => ofRestore(one, href(['restores', one.id]))),
    ...changesOf(changes.data ?? []),
  ].toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return (
    <>
      {events.error !== undefined && <ErrorBox error={events.error} onRetry={events.again} />}
      {events.data === undefined && events.error === undefined ? (
        <Skeleton lines={3} label="Reading events" />
      ) : (
        <Timeline label="Events" entries={entries.slice(0, most)} />
      )}
      {entries.length > most && (
        <p>
          <a href={href(parts(it, 'events'))}>All {entries.length}</a>
        </p>
      )}
    </>
  );
}

function ofEvent(one: ObjectEvent): TimelineEntry {
  return {
    key: `event ${one.reason} ${one.about ?? ''} ${one.first_at}`,
    at: one.last_at,
    shape: one.type === 'warning' ? 'warn' : 'info',
    title: `${labelOf(one.reason)}${one.count > 1 ? ` ×${one.count}` : ''}`,
    detail: one.message,
  };
}

function ofBackup(one: ObjectOf<'backup'>): TimelineEntry {
  const { word, shape } = lookOf('backup', one);
  return {
    key: `backup ${one.id}`,
    at: one.completed_at ?? one.requested_at,
    shape,
    title: `Backup: ${word.toLowerCase()}`,
    detail: one.error?.message ?? (one.size_bytes === null ? '' : bytesText(one.size_bytes)),
  };
}

function ofRestore(one: ObjectOf<'restore'>, href: string): TimelineEntry {
  const { word, shape } = lookOf('restore', one);
  return {
    key: `restore ${one.id}`,
    at: one.finished_at ?? one.requested_at,
    shape,
    title: (
      <>
        <a href={href}>Restore</a> {word.toLowerCase()}
      </>
    ),
    detail: one.error?.message,
  };
}
