import { segmentOf } from '../databases/wal.ts';
import type { TenantView } from './mirror.ts';
import { isDeleting, isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type Archive = ReadonlyResource<'wal_archive'>;
type Backup = ReadonlyResource<'backup'>;

/** Every instant from one to the other can be recovered to. Milliseconds since the epoch. */
export interface Window {
  from: number;
  to: number;
  archive: Archive;
  /** The base backups of it, the earliest first. */
  bases: readonly Base[];
  /** The segment by which its end is recovered. */
  lastSegment: string;
}

/** A base backup that can be read, and what of the log it needs. */
interface Base {
  backup: Backup;
  first: string;
  last: string;
  /** It can be recovered to this instant and later ones. */
  stoppedAt: number;
}

/** The windows of one archive, the earliest first: a gap in its log ends one. Pure. */
export function windowsOf(archive: Archive, backups: readonly Backup[]): Window[] {
  const { observed } = archive;
  const { until, until_segment: untilSegment, gaps = [] } = observed ?? {};
  if (until === undefined || untilSegment === undefined) return [];
  const last = Date.parse(until);
  // one that ends later is of a state of the server whose log is not there
  const bases = backups
    .flatMap(baseOf)
    .filter(({ stoppedAt }) => stoppedAt <= last)
    .toSorted((a, b) => a.stoppedAt - b.stoppedAt);
  const starts = [undefined, ...gaps.map(({ before }) => before)];
  return starts.flatMap((begin, index): Window[] => {
    const end = gaps[index]?.after;
    const within = bases.filter(
      (it) => (begin === undefined || !isBefore(it.first, begin)) && !isBefore(end ?? untilSegment, it.last),
    );
    const [earliest, latest] = [within[0], within.at(-1)];
    if (earliest === undefined || latest === undefined) return [];
    // before a gap only the ends of base backups are known to be followed by a commit
    const isOpen = end === undefined;
    const to = isOpen ? last : latest.stoppedAt;
    const lastSegment = isOpen ? untilSegment : latest.last;
    return [{ from: earliest.stoppedAt, to, archive, bases: within, lastSegment }];
  });
}

/**
 * Whether the bucket has the log that a base backup needs, as far as is known: on its files alone no instance begins. Pure.
 *
 * @param archive of the base backup
 */
export function isReadable(backup: Backup, archive: Archive | undefined): boolean {
  return isStaying(archive) && windowsOf(archive, [backup]).length > 0;
}

/** All windows of a database, the earliest first. */
export function databaseWindows(view: TenantView, databaseId: string): Window[] {
  return view
    .by('wal_archive', 'database', databaseId)
    .filter((it) => !isDeleting(it))
    .flatMap((it) => windowsOf(it, view.by('backup', 'archive', it.meta.id)))
    .toSorted((a, b) => a.from - b.from);
}

/** What leads to an instant: a base backup, and the segments from which to which it is brought there. */
export interface Recovery {
  backup: Backup;
  archive: Archive;
  first: string;
  last: string;
}

/** The way to an instant; `undefined`: it is in no window. Pure. */
export function recoveryTo(windows: readonly Window[], target: number): Recovery | undefined {
  const window = windows.findLast(({ from, to }) => from <= target && target <= to);
  const base = window?.bases.findLast(({ stoppedAt }) => stoppedAt <= target);
  if (window === undefined || base === undefined) return undefined;
  // the log of a later base backup ends with a commit after its own instant
  const next = window.bases.find(({ stoppedAt }) => stoppedAt > target);
  return { backup: base.backup, archive: window.archive, first: base.first, last: next?.last ?? window.lastSegment };
}

/** Whether the archive has each segment of a way, as far as its bucket was asked. Pure. */
export function hasGapWithin(archive: Archive, first: string, last: string): boolean {
  return (archive.observed?.gaps ?? []).some(({ after, before }) => isBefore(after, last) && isBefore(first, before));
}

function baseOf(backup: Backup): Base[] {
  const { phase, log, expiring } = backup.observed ?? {};
  if (phase !== 'completed' || log === undefined || expiring === true || isDeleting(backup)) return [];
  const { first_segment: first, last_segment: last, stopped_at } = log;
  return [{ backup, first, last, stoppedAt: Date.parse(stopped_at) }];
}

function isBefore(one: string, other: string): boolean {
  return segmentOf(one).position < segmentOf(other).position;
}
