import { hasBackupEnded, isGoodBackup } from '../../store/kinds/backup.ts';
import { defined } from '../../store/defined.ts';
import { drillIntervalMs } from '../../store/drill-interval.ts';
import type { DrillResult } from '../../store/kinds/backup-schedule.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { shownResult } from '../../store/last-drills.ts';
import type { LastDrill } from '../../store/last-drills.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { nextRecurrence, recurrencesBetween } from '../../time/recurrence.ts';
import type { BackedUp } from '../../store/new-backup.ts';
import type { CronRule } from '../../time/cron.ts';
import { isAhead, oldestFirst } from '../backup/order.ts';

export type Schedule = ReadonlyResource<'backup_schedule'>;
type Backup = ReadonlyResource<'backup'>;
export type Observed = ObservedOf<'backup_schedule'>;

/** What a schedule does next follows from this. */
export interface World {
  schedule: Schedule;
  /** What it backs up: its database, its volume, or the volumes that its application mounts. */
  targets: readonly BackedUp[];
  /** Of what it is of; absent: that is gone. */
  name: string | undefined;
  /** All of the schedule. */
  backups: readonly Backup[];
  /** Restores of these that were made for a trial. */
  drills: readonly ReadonlyResource<'restore'>[];
  /** Volumes that its project may still have: each drill needs one. */
  room: number;
  now: Date;
}

/** After the time of a backup that did not come it is still given so long. In milliseconds. */
const graceMs = 10 * 60_000;

/** What the instants that have come lead to. */
export interface Due {
  /** The instant whose backup is to be made. */
  fires: Date | undefined;
  /** Instants before it whose backups will not be made. */
  missed: number;
  /** Why none is made although one is due. */
  skipped: 'overlap' | undefined;
  handledUntil: Date;
}

/**
 * What is due. Pure. Of several instants that have come, as after the control plane was away, the last one fires: one backup
 * now is worth as much as several. While a backup of the schedule has not ended, no other instant begins any.
 */
export function dueOf({ schedule, targets, backups, now }: World): Due {
  const until = schedule.observed?.handled_until ?? schedule.meta.createdAt;
  const handled = new Date(until);
  const nothing = { fires: undefined, missed: 0, skipped: undefined };
  if (isIdle({ schedule, targets })) return { ...nothing, handledUntil: handled };
  // what was left out meanwhile is not caught up, and what another rule would have done before is nothing that was missed
  const { is_idle, rule = ruleText(schedule) } = schedule.observed ?? {};
  if (is_idle === true || rule !== ruleText(schedule)) return { ...nothing, handledUntil: now };
  // the clock was ahead: until that instant comes nothing would be due
  if (isAhead(until, now)) return { ...nothing, handledUntil: now };
  const instants = recurrencesBetween(ruleOf(schedule), handled, now);
  const last = instants.at(-1);
  if (last === undefined) return { ...nothing, handledUntil: handled };
  // a run that ended before it noted an instant is repeated, and makes what is still to be made of it; later ones come next
  const begun = instants.findLast((at) => backups.some(({ desired }) => desired.scheduled_for === at.toISOString()));
  if (begun !== undefined)
    return { fires: begun, missed: instants.indexOf(begun), skipped: undefined, handledUntil: begun };
  return backups.some(isBusyBackup)
    ? { fires: undefined, missed: instants.length, skipped: 'overlap', handledUntil: last }
    : { fires: last, missed: instants.length - 1, skipped: undefined, handledUntil: last };
}

/** Whether a backup goes on. One that a user has deleted holds up no other, however long its record waits for its bucket. */
export function isBusyBackup(it: Backup): boolean {
  return isStaying(it) && !hasBackupEnded(it.observed?.phase);
}

/** Nothing is to be backed up. */
function isIdle({ schedule, targets }: Pick<World, 'schedule' | 'targets'>): boolean {
  return schedule.desired.is_paused || !targets.some(isWanted);
}

/** A database that is stopped is not backed up. */
function isWanted(of: BackedUp): boolean {
  return isStaying(of.it) && (of.kind === 'volume' || of.it.desired.run !== 'stopped');
}

/**
 * Backups whose time is over, as there are enough later good ones. Pure. A run by hand ends none that came at its time:
 * who may only make backups could end what the schedule keeps.
 */
export function surplusOf({ schedule, backups, now }: World): readonly Backup[] {
  const good = oldestFirst(
    backups.filter(({ observed, desired }) => isGoodBackup(observed) && !desired.pinned),
    now,
  ).reverse();
  const alike = Object.groupBy(good, ({ desired }) => `${desired.of.id} ${desired.scheduled_for !== undefined}`);
  return Object.values(alike).flatMap((ofOne = []) =>
    ofOne.slice(schedule.desired.retention_count).filter(({ desired }) => desired.expires_at === undefined),
  );
}

/** Failed backups of a schedule that stay, the newest of each thing that it backs up. */
const mostFailed = 20;

/**
 * Failed backups that are more than are to stay: of those that fail each minute there would be thousands. One that was completed
 * once may be found again. Pure.
 */
export function failedSurplusOf({ backups, now }: Pick<World, 'backups' | 'now'>): readonly Backup[] {
  const failed = oldestFirst(
    backups
      .filter(
        ({ observed, desired }) => observed?.phase === 'failed' && observed.size_bytes === undefined && !desired.pinned,
      )
      .filter(isStaying),
    now,
  ).reverse();
  return Object.values(Object.groupBy(failed, ({ desired }) => desired.of.id)).flatMap((ofOne = []) =>
    ofOne.slice(mostFailed),
  );
}

/** A backup that is to be tried, and what it is of. */
export interface DueDrill {
  backup: Backup;
  of: BackedUp;
}

/**
 * The newest good backup of each whose last drill is as long ago as is wanted, as many as there is room for. Pure. None is
 * tried twice by itself.
 */
export function drillsDueOf(world: World): DueDrill[] {
  const { schedule, targets, backups, drills, room, now } = world;
  const { verify_every: every } = schedule.desired;
  if (every === undefined || isIdle(world)) return [];
  const due = targets.filter(isWanted).flatMap((of) => {
    const last = lastDrillOf(world, of);
    if (last !== undefined && now.getTime() < Date.parse(last.begun_at) + drillIntervalMs(every)) return [];
    const good = backups.filter(
      (it) => it.desired.of.id === of.it.meta.id && isGoodBackup(it.observed) && isStaying(it),
    );
    const newest = oldestFirst(good, now).at(-1);
    const isTried =
      newest === undefined ||
      newest.observed?.verification !== undefined ||
      drills.some(({ desired }) => desired.backup_id === newest.meta.id);
    return isTried ? [] : [{ backup: newest, of }];
  });
  return due.slice(0, Math.max(0, room));
}

/** What is known of the last drill of one thing, also of one that was begun and not written down before a crash. */
function lastDrillOf(
  { schedule, drills, now }: Pick<World, 'schedule' | 'drills' | 'now'>,
  of: BackedUp,
): LastDrill | undefined {
  const { id } = of.it.meta;
  const known = schedule.observed?.drills?.find((it) => it.of === id);
  const begun_at = drills
    .filter(({ desired }) => desired.of.id === id && desired.requested_by === undefined)
    .map(({ desired }) => desired.requested_at)
    .filter((at) => !isAhead(at, now))
    .concat(known === undefined ? [] : cameBy(known.begun_at, now))
    .toSorted()
    .at(-1);
  if (begun_at === undefined) return undefined;
  const result = known?.result && plainCopy<DrillResult>(known.result);
  return defined({ of: id, begun_at, result: result && { ...result, at: cameBy(result.at, now) } });
}

/** An instant, or `now` in place of one that a clock which was ahead has given: what is known goes on from there. */
function cameBy(instant: string, now: Date): string {
  return isAhead(instant, now) ? now.toISOString() : instant;
}

/** The last drill of each that it backs up, and what the last one that has ended showed. */
function drillsAfter(world: World, begun: readonly DueDrill[]): Observed['drills'] {
  const { targets, backups, now } = world;
  const all = targets.flatMap((of) => {
    const before = lastDrillOf(world, of);
    const isBegun = begun.some((one) => one.of.it.meta.id === of.it.meta.id);
    const begun_at = isBegun ? now.toISOString() : before?.begun_at;
    if (begun_at === undefined) return [];
    const shown = backups
      .flatMap(({ meta, desired, observed }) => {
        const found = observed?.verification;
        if (found === undefined || desired.of.id !== of.it.meta.id || isAhead(found.at, now)) return [];
        const { status, at, error } = found;
        return [defined({ backup_id: meta.id, status, at, error: error && { ...error } })];
      })
      .toSorted((a, b) => (a.at < b.at ? 1 : -1))[0];
    const known = before?.result;
    const result = shown !== undefined && shown.at > (known?.at ?? '') ? shown : known;
    return [defined({ of: of.it.meta.id, begun_at, result })];
  });
  return all.length === 0 ? undefined : all;
}

/** What is known after what was due was done. Pure. */
export function observedAfter(
  world: World,
  due: Due,
  made: string | undefined,
  begun: readonly DueDrill[] = [],
): Observed {
  const { schedule } = world;
  const before = schedule.observed;
  const good = goodSince(world);
  const last = [before?.last_success_at, good]
    .filter((it) => it !== undefined)
    .toSorted()
    .at(-1);
  const idle = isIdle(world);
  const from = beginsAnew(schedule, idle) ? due.handledUntil.toISOString() : before?.counted_from;
  return defined({
    phase: schedule.desired.is_paused
      ? ('paused' as const)
      : !idle && isOverdue(world, last, from)
        ? ('overdue' as const)
        : ('active' as const),
    handled_until: due.handledUntil.toISOString(),
    rule: ruleText(schedule),
    next_run_at: idle ? undefined : nextRecurrence(ruleOf(schedule), due.handledUntil)?.toISOString(),
    last_run_at: due.fires?.toISOString() ?? before?.last_run_at,
    last_backup_id: made ?? before?.last_backup_id,
    last_success_at: last,
    missed: (before?.missed ?? 0) + due.missed,
    is_idle: idle ? (true as const) : undefined,
    counted_from: from,
    drills: drillsAfter(world, begun),
  });
}

/** Whether what has to be good is counted from now on: the times are other ones, or something is backed up again. */
function beginsAnew(schedule: Schedule, isIdleNow: boolean): boolean {
  const { rule, is_idle } = schedule.observed ?? {};
  return (rule !== undefined && rule !== ruleText(schedule)) || (is_idle === true && !isIdleNow);
}

/** When the last good backup ended of what has waited longest for one; `undefined`: something has none. */
function goodSince({ targets, backups }: World): string | undefined {
  const lasts = targets.map(({ it }) =>
    backups
      .flatMap(({ desired, observed }) =>
        isGoodBackup(observed) && desired.of.id === it.meta.id ? [observed?.finished_at ?? ''] : [],
      )
      .toSorted()
      .at(-1),
  );
  const known = lasts.filter((last) => last !== undefined);
  return known.length < lasts.length ? undefined : known.toSorted()[0];
}

/** None was good for twice the time between two instants. */
function isOverdue({ schedule, now }: World, lastSuccess: string | undefined, from: string | undefined): boolean {
  const since = later(new Date(lastSuccess ?? schedule.meta.createdAt), new Date(from ?? 0));
  const first = nextRecurrence(ruleOf(schedule), since);
  const second = first && nextRecurrence(ruleOf(schedule), first);
  return second !== undefined && now.getTime() > second.getTime() + graceMs;
}

/** The rule of a schedule as a text: two rules are the same where their texts are. */
function ruleText({ desired }: Schedule): string {
  return `${desired.timezone} ${desired.cron_expression}`;
}

function ruleOf({ desired }: Schedule): CronRule {
  return { expression: desired.cron_expression, timezone: desired.timezone };
}

function later(one: Date, other: Date): Date {
  return one > other ? one : other;
}

export function conditionsOf({ phase, last_success_at, drills }: Observed, world: World): ConditionInput[] {
  const isTried = world.schedule.desired.verify_every !== undefined;
  return [
    readyOf(phase, world),
    backedUp(phase, last_success_at !== undefined),
    ...(isTried ? [proven(drills ?? [])] : []),
  ];
}

function proven(drills: readonly LastDrill[]): ConditionInput {
  const type = 'Proven';
  const shown = shownResult(drills);
  if (shown === undefined)
    return {
      type,
      status: 'unknown',
      reason: 'NotTriedYet',
      message: 'None of its backups was restored for trial yet',
    };
  if (shown.status === 'proven')
    return {
      type,
      status: 'true',
      reason: 'Proven',
      message: `All of backup ${shown.backup_id} was restored and read`,
    };
  return {
    type,
    status: 'false',
    reason: 'NotProven',
    message: `Backup ${shown.backup_id} could not be restored for trial: ${shown.error?.message ?? ''}`,
  };
}

function readyOf(phase: Observed['phase'], world: World): ConditionInput {
  const type = 'Ready';
  if (phase === 'paused')
    return { type, status: 'false', reason: 'Paused', message: 'It is paused: nothing is backed up' };
  if (isIdle(world)) {
    const [reason, message] =
      world.schedule.desired.of.kind === 'database'
        ? ['DatabaseStopped', 'Its database is stopped, as desired']
        : ['NoVolume', 'There is no volume to back up'];
    return { type, status: 'false', reason, message };
  }
  return { type, status: 'true', reason: 'Scheduled', message: 'next_run_at says when the next backup begins' };
}

function backedUp(phase: Observed['phase'], wasGood: boolean): ConditionInput {
  const type = 'BackedUp';
  if (phase === 'overdue')
    return {
      type,
      status: 'false',
      reason: 'Overdue',
      message: wasGood
        ? 'None of the backups since last_success_at was good, and two should have been: see its backups'
        : 'No backup was good since the schedule was made: see its backups',
    };
  if (!wasGood)
    return { type, status: 'unknown', reason: 'NoBackupYet', message: 'None of its backups has ended well yet' };
  return { type, status: 'true', reason: 'BackedUp', message: 'last_success_at says when the last good backup ended' };
}
