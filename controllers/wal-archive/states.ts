import { engines } from '../../databases/engines.ts';
import { isSegment, isSettled, laterSegment, nextSegment, segmentAt, segmentOf } from '../../databases/wal.ts';
import { defined } from '../../store/defined.ts';
import { hasBackupEnded, isGoodBackup } from '../../store/kinds/backup.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { isReadable, windowsOf } from '../../store/recovery-window.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { nextInstant } from '../../time/cron.ts';
import { isAhead, oldestFirst, revisionOf } from '../backup/order.ts';
import { agentTooOld } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';

export type Archive = ReadonlyResource<'wal_archive'>;
export type Backup = ReadonlyResource<'backup'>;
export type Observed = ObservedOf<'wal_archive'>;

/** Durations in milliseconds. */
export const patience = {
  /** Between two base backups where no times are given. */
  baseMs: 24 * 60 * 60_000,
  /** After a base backup that failed. */
  againMs: 10 * 60_000,
  mostAgainMs: 6 * 60 * 60_000,
  /** Between two times that the bucket is asked which segments it has. */
  checkMs: 60 * 60_000,
  /** An archive that is behind for so long is trouble. */
  behindMs: 5 * 60_000,
  /** Between two looks at one that goes on. */
  lookMs: 60_000,
} as const;

/** From these shares of what the disk of a server can hold on, segments that wait are trouble. In percent. */
const fill = { warning: 50, error: 80 } as const;

/** What the phase of an archive follows from. */
export interface World {
  archive: Archive;
  database: ReadonlyResource<'database'> | undefined;
  destination: ReadonlyResource<'backup_destination'> | undefined;
  /** The instance that serves the database from the volume of the archive. */
  instance: Assignment | undefined;
  /** Sends the segments. */
  sender: Assignment | undefined;
  /** Base backups of this archive. */
  bases: readonly Backup[];
  /** Physical backups of the same database, of all of its archives. */
  allBases: readonly Backup[];
  /** Archives of the same database, with this one. */
  archives: readonly Archive[];
  /** Recoveries by this archive that have not ended. */
  recoveries: readonly ReadonlyResource<'restore'>[];
  now: Date;
}

/** Whether the database writes on into this archive. */
export function isOpen({ archive, database }: Pick<World, 'archive' | 'database'>): boolean {
  return (
    !archive.desired.ended &&
    !isDeleting(archive) &&
    isStaying(database) &&
    database.desired.archive?.id === archive.meta.id
  );
}

/** Whether the instance was begun so that it archives, and serves. */
export function isArchiving({ archive, instance }: Pick<World, 'archive' | 'instance'>): boolean {
  if (instance === undefined || upToDate(instance)?.ready !== true) return false;
  const { type, version } = archive.desired.engine;
  const { spec } = instance.desired;
  const wanted = engines[type].archive?.archiving(version);
  // parameters follow
  return spec.type === 'service' && wanted?.every((word, at) => spec.command?.[at] === word) === true;
}

/** The id of the base backup that is due; `undefined`: none is. Pure. Its id follows from the one before. */
export function dueBase(world: World): string | undefined {
  const { archive, bases, now, destination } = world;
  // before anything was sent, it is not known that a base backup could be completed by its log
  if (!isOpen(world) || !isArchiving(world) || untilOf(world) === undefined || !isStaying(destination))
    return undefined;
  // its log would stay on its server
  if (isBroken(world)) return undefined;
  const sorted = oldestFirst(bases, now);
  const last = sorted.at(-1);
  if (last !== undefined && !hasBackupEnded(last.observed?.phase)) return undefined;
  const ended = last?.observed?.finished_at ?? last?.desired.requested_at ?? '';
  const failed = sorted.length - 1 - sorted.findLastIndex(({ observed }) => observed?.phase !== 'failed');
  if (failed > 0 && !isPast(ended, pauseAfter(failed), now)) return undefined;
  return isDue(world, sorted) ? uuidv5(namespace, `${archive.meta.id} ${last?.meta.id ?? 'first'}`) : undefined;
}

/** Whether so many milliseconds have gone by since an instant. One that a clock which was ahead has given holds up nothing. */
function isPast(instant: string, ms: number, now: Date): boolean {
  return isAhead(instant, now) || now.getTime() - Date.parse(instant) >= ms;
}

/** Milliseconds until another base backup after so many failed ones in a row: what will not succeed is not tried all day. */
function pauseAfter(failed: number): number {
  return Math.min(patience.againMs * 2 ** (failed - 1), patience.mostAgainMs);
}

/** The last instant that the bucket has, as far as it was reported. */
function untilOf({ archive, sender }: World): string | undefined {
  return sender?.observed?.archive?.until ?? archive.observed?.until;
}

/** Namespace of the ids of base backups (UUIDv5). */
const namespace = '0a6d5f0e-8a53-4a07-9d3c-6a1f0d2b7c11';

function isDue({ archive, database, now }: World, sorted: readonly Backup[]): boolean {
  const good = sorted.findLast(({ observed }) => observed?.phase === 'completed');
  if (good === undefined) return true;
  // its log has a gap: only another base backup begins a window that goes on
  const isCut =
    archive.observed?.gaps.some(({ before }) => isAfter(before, good.observed?.log?.first_segment)) === true;
  if (isCut) return true;
  const { requested_at: since } = good.desired;
  const cron = database?.desired.archive?.cron_expression;
  if (cron === undefined || isAhead(since, now)) return isPast(since, patience.baseMs, now);
  const next = nextInstant({ expression: cron, timezone: 'UTC' }, new Date(since));
  return next !== undefined && next <= now;
}

function isAfter(one: string, other: string | undefined): boolean {
  return other !== undefined && segmentOf(one).position > segmentOf(other).position;
}

/**
 * Good base backups that are more than are to stay: those that are older than so many that can be read. One whose log is not in
 * its bucket counts for nothing: it would end those that can be read. Pure.
 */
export function surplusOf(world: World): readonly Backup[] {
  const { allBases, archives, database, now } = world;
  const count = database?.desired.archive?.retention_count;
  if (!isOpen(world) || count === undefined) return [];
  const good = oldestFirst(
    allBases.filter(({ desired, observed }) => isGoodBackup(observed) && !desired.pinned),
    now,
  ).reverse();
  const archiveOf = ({ desired }: Backup) => archives.find(({ meta }) => meta.id === desired.archive_id);
  const last = good.filter((it) => isReadable(it, archiveOf(it)))[count - 1];
  if (last === undefined) return [];
  return good.slice(good.indexOf(last) + 1).filter(({ desired }) => desired.expires_at === undefined);
}

/** What a check that is begun now is for: the last recovery that was asked for, or the one of an earlier check. Pure. */
export function checkedFor({ archive, recoveries }: Pick<World, 'archive' | 'recoveries'>): number {
  return Math.max(archive.observed?.checked_for ?? 0, ...recoveries.map(revisionOf));
}

/** The first segment that a base backup of the archive needs; `undefined`: there is none. */
export function firstNeeded({ bases }: Pick<World, 'bases'>): string | undefined {
  const needed = bases
    // one that is lost may be found again
    .filter(({ observed }) => observed?.phase === 'completed' || observed?.lost !== undefined)
    .flatMap(({ observed }) => observed?.log?.first_segment ?? []);
  return needed.toSorted((a, b) => segmentOf(a).position - segmentOf(b).position)[0];
}

/** Whether the bucket is to be asked which segments it has. Pure. */
export function isCheckDue({ archive, recoveries, now, bases }: World): boolean {
  if (firstNeeded({ bases }) === undefined || archive.observed?.last_segment === undefined) return false;
  const { checked_at, checked_for = 0 } = archive.observed;
  if (checked_at === undefined) return true;
  // by the store, as the clocks of replicas differ
  if (recoveries.some((it) => revisionOf(it) > checked_for)) return true;
  // what is ended gets no more, and may lose all the same
  return isPast(checked_at, patience.checkMs, now);
}

/** Most gaps that are told; what is between further ones counts as one. */
const mostGaps = 50;

/** The gaps between the first and the last of the names, both of which should be there. Pure. */
export function gapsIn(names: readonly string[], first: string, last: string): Observed['gaps'] {
  const [from, to] = [segmentOf(first), segmentOf(last)];
  const there = names
    .filter(isSegment)
    .map(segmentOf)
    .filter(
      ({ timeline, position }) => timeline === from.timeline && position >= from.position && position <= to.position,
    )
    .map(({ position }) => position)
    .toSorted((a, b) => a - b);
  const before = { timeline: from.timeline, position: from.position - 1 };
  const after = { timeline: from.timeline, position: to.position + 1 };
  const gaps: Observed['gaps'] = [];
  let previous = before.position;
  for (const position of [...there, after.position]) {
    if (position > previous + 1) {
      const gap = { after: nameAt(from.timeline, previous), before: nameAt(from.timeline, position) };
      const last = gaps.at(-1);
      if (gaps.length < mostGaps || last === undefined) gaps.push(gap);
      else last.before = gap.before;
    }
    previous = position;
  }
  return gaps;
}

function nameAt(timeline: number, position: number): string {
  return segmentAt({ timeline, position });
}

/** What is known of an archive by its sender, before its bucket was asked. Pure. */
export function observedOf(world: World, isLate: boolean): Observed {
  const { archive, sender } = world;
  const before =
    archive.observed === undefined ? { phase: 'starting' as const, gaps: [] } : plainCopy<Observed>(archive.observed);
  const seen = sender?.observed?.archive;
  // what was sent is not written again: a report takes nothing of it back
  const last_segment = laterSegment(before.last_segment, seen?.last_segment);
  const { system_identifier, checked_at, checked_for, gaps, removed_at, notified } = { ...before, ...seen };
  const { sent_at, until, until_segment } = isOfEarlierState(before, seen) ? before : { ...before, ...seen };
  const now = defined({
    system_identifier,
    last_segment,
    sent_at,
    until,
    until_segment,
    checked_at,
    checked_for,
    gaps,
    removed_at,
    notified,
  });
  return { ...now, phase: phaseOf(world, until, isLate) };
}

/**
 * The server was put back to an earlier state: what it sends next is not taken, so that the bucket has all that it had, and what
 * was committed by then can be recovered to.
 */
function isOfEarlierState({ last_segment: known }: Observed, seen: Stand | undefined): boolean {
  const reported = seen?.last_segment;
  if (known === undefined || reported === undefined || !isSegment(known) || !isSegment(reported)) return false;
  return isSettled(nextSegment(reported), known);
}

type Stand = NonNullable<NonNullable<Assignment['observed']>['archive']>;

function phaseOf(world: World, until: string | undefined, isLate: boolean): Observed['phase'] {
  if (world.archive.observed?.removed_at !== undefined) return 'removed';
  if (!isOpen(world)) return 'ended';
  if (isBroken(world)) return 'broken';
  if (isLate) return 'behind';
  return until === undefined ? 'starting' : 'archiving';
}

/** Whether a segment was refused: nothing after it is sent. */
function isBroken({ sender }: World): boolean {
  return sender?.observed?.error?.code === 'archive_refused';
}

/** Whether what was written waits at the moment. */
export function isWaiting(world: World): boolean {
  return isWanted(world) && world.sender?.observed?.error !== undefined;
}

/** Whether nothing that was written since is in the bucket for too long. */
export function isOverdue(world: World): boolean {
  const until = untilOf(world);
  return isWanted(world) && until !== undefined && world.now.getTime() - Date.parse(until) >= patience.behindMs;
}

/** Whether something is to come: a database that does not run writes nothing. */
function isWanted(world: World): boolean {
  return isOpen(world) && world.database?.desired.run === 'running';
}

export function conditionsOf(world: World, now: Observed): ConditionInput[] {
  return [ready(world, now), ...agentTooOld([world.sender?.observed?.error])];
}

const is = (status: ConditionInput['status'], reason: string, message: string): ConditionInput => ({
  type: 'Ready',
  status,
  reason,
  message,
});

function ready(world: World, now: Observed): ConditionInput {
  const { sender, archive, bases } = world;
  if (now.phase === 'ended' || now.phase === 'removed') return is('true', 'Ended', 'Nothing is added to it any more');
  const waits = waitingOf(sender, now);
  if (waits !== undefined) return waits;
  const [gap] = now.gaps;
  if (gap !== undefined)
    return is(
      'false',
      'Gap',
      `Its bucket has lost segments after ${gap.after}: instants within them cannot be recovered to`,
    );
  const seen = { ...archive, observed: { ...archive.observed, ...now } } as Archive; // what is read of it
  return windowsOf(seen, bases).length > 0
    ? is('true', 'Archiving', 'What the database writes is in its bucket')
    : is('false', 'WaitingForBase', 'It has no base backup yet');
}

/** What keeps the log from its bucket; `undefined`: nothing. */
function waitingOf(sender: World['sender'], { phase }: Observed): ConditionInput | undefined {
  const { waiting = 0, fill_percent: share = 0 } = sender?.observed?.archive ?? {};
  const said = sender?.observed?.error?.message;
  const more = said === undefined ? '' : `: ${said}`;
  if (phase === 'broken') return is('false', 'SegmentRefused', said ?? 'A segment was refused');
  if (share >= fill.warning) {
    const message = `What waits takes ${share} % of what the disk of its server can hold of it${more}`;
    return is('false', share >= fill.error ? 'DiskFilling' : 'DiskHalfFull', message);
  }
  if (phase === 'behind') return is('false', 'Behind', `${waiting} segments wait on its server${more}`);
  return phase === 'starting' ? is('false', 'Starting', `Nothing is in its bucket yet${more}`) : undefined;
}
