import type { BackupPhase } from '../../store/kinds/backup.ts';
import { hasBackupEnded, isGoodBackup } from '../../store/kinds/backup.ts';
import { defined } from '../../store/defined.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { isDrill } from '../../store/new-drill.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { agentTooOld } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { hasBegun, taskState } from '../task/task.ts';

export type Backup = ReadonlyResource<'backup'>;
export type Observed = ObservedOf<'backup'>;
type Fault = NonNullable<Observed['error']>;

/** Durations in milliseconds. */
export const patience = {
  /** A backup that could not begin within that time does not begin any more. */
  startMs: 60 * 60_000,
  /** For so long a bucket that does not answer is asked again. */
  bucketMs: 60 * 60_000,
  /** Between two looks whether the bucket still has an object. */
  lookMs: 24 * 60 * 60_000,
  /** From the note that it is removed until it is, so that all replicas of the API know of that. */
  expiringMs: 10_000,
  /** After a look at which the bucket did not have an object, before it counts as lost. */
  doubtMs: 60 * 60_000,
} as const;

/** Uploads that are begun for a backup at most. */
const uploadsInAll = 3;

/** What the phase of a backup follows from. */
export interface World {
  backup: Backup;
  database: ReadonlyResource<'database'> | undefined;
  volume: ReadonlyResource<'volume'> | undefined;
  /** The instance that serves the database. */
  instance: Assignment | undefined;
  server: ReadonlyResource<'server'> | undefined;
  destination: ReadonlyResource<'backup_destination'> | undefined;
  /** Of a physical one: the log that it belongs to. */
  archive: ReadonlyResource<'wal_archive'> | undefined;
  /** Carries the backup out. */
  task: Assignment | undefined;
  /** Bytes that the last good backup of the same database had; absent: there is none. */
  expectedBytes: number | undefined;
  /** There is a later good backup of the same database. */
  hasSuccessor: boolean;
  /** It is being restored. */
  isRead: boolean;
  /** What it is of is about to get other data by a restore. */
  isReplaced: boolean;
  /** Its restores that have ended. */
  restores: readonly ReadonlyResource<'restore'>[];
  /** For how many milliseconds it is noted that it is removed. */
  expiringMs: number;
  /** Milliseconds for which it may still wait, or its task may; 0 or less: it is late. */
  leftMs: number;
  now: Date;
}

/** What a backup does next. */
export type Step =
  /** Nothing but wait for something that wakes it. */
  | { do: 'wait'; because: Because }
  /** Begin an upload in its bucket. */
  | { do: 'begin' }
  /** Let its server send the dump. */
  | { do: 'send'; because: Because }
  /** Make the object of the parts that were sent, and read back what the bucket says of it. */
  | { do: 'finish'; result: Result }
  /** Ask the bucket whether it has the object that its manifest describes. */
  | { do: 'adopt'; found: NonNullable<Backup['desired']['found']> }
  /** Ask the bucket whether it still has the object. */
  | { do: 'look' }
  /** Give up. */
  | { do: 'fail'; error: Fault }
  /** Remove what a backup that was given up left in its bucket. */
  | { do: 'tidy' }
  /** Note that the object is removed, as its time is over. */
  | { do: 'mark' }
  /** Remove it. */
  | { do: 'expire' }
  /** Take that back: it is wanted after all, as by a pin. The removal may have begun. */
  | { do: 'keep' }
  | { do: 'rest' };
type Result = Extract<ReturnType<typeof taskState<'backup'>>, { outcome: 'succeeded' }>['result'];

/** What is next for a backup. Pure. */
export function stepOf(world: World): Step {
  const { backup } = world;
  if (hasBackupEnded(backup.observed?.phase)) return afterEnd(world);
  if (backup.desired.cancel_requested || isDeleting(backup)) return { do: 'fail', error: cancelled };
  const { found } = backup.desired;
  if (found !== undefined) return { do: 'adopt', found };
  return byTask(world);
}

/** What the task of a backup leads to that is wanted and has not ended. */
function byTask(world: World): Step {
  const state = sendingOf(world);
  const ended = state.outcome === 'failed' ? undefined : archiveFault(world);
  if (ended !== undefined) return lackOf(world, ['database', 'destination']) ?? { do: 'fail', error: ended };
  switch (state.outcome) {
    case 'succeeded':
      return { do: 'finish', result: state.result };
    case 'failed':
      return { do: 'fail', error: state.error };
    case 'lost':
      if (state.isExhausted) return { do: 'fail', error: state.error ?? lost };
      return world.isReplaced ? untilReplaced(world) : sending;
    case 'running':
      return (
        lackOf(world, [
          'server',
          'destination',
          ...(world.backup.desired.of.kind === 'volume' ? ['volume' as const] : []),
        ]) ?? (world.leftMs <= 0 ? { do: 'fail', error: late } : sending)
      );
    case 'waiting':
    case 'absent':
      return lackOf(world, ['destination', world.backup.desired.of.kind, 'server']) ?? begin(world);
  }
}

/**
 * Why the files of a database are no part of the archive that they were asked for; `undefined`: they are, or it is no physical
 * backup. They go with one log: that of the volume that the database served from then. Of another volume, as after a
 * restore, they are those of another server.
 */
function archiveFault({ backup, archive, database, instance }: World): Fault | undefined {
  if (backup.desired.method !== 'physical') return undefined;
  const volume = archive?.desired.volume_id;
  const isElsewhere = instance !== undefined && instance.desired.version !== volume;
  if (isElsewhere || database?.desired.data_volume_id !== volume) return servesFromAnother;
  return isStaying(archive) && database?.desired.archive?.id === archive.meta.id ? undefined : notArchived;
}

/** What has become of sending to the present upload: what was sent to an earlier one is nothing. */
function sendingOf({ backup, task }: World): ReturnType<typeof taskState<'backup'>> {
  const isOfEarlier =
    task !== undefined && (backup.observed?.has_surplus === true || task.desired.version !== uploadVersion(backup));
  return isOfEarlier ? { outcome: 'waiting', attempt: 1, isExhausted: false } : taskState('backup', task);
}

/** Whether an attempt is being made. */
export function isReading(task: Assignment | undefined): boolean {
  return hasBegun(task) && taskState('backup', task).outcome !== 'lost';
}

/** The version of the task that sends to the present upload: to another one, its server sends again. */
export function uploadVersion({ meta, observed }: Backup): string {
  const { uploads = 1 } = observed ?? {};
  return uploads === 1 ? meta.id : uuidv5(meta.id, `upload/${uploads}`);
}

/** Whether another upload may begin after one that its bucket does not complete. */
export function mayBeginAnother({ uploads = 1 }: Observed): boolean {
  return uploads < uploadsInAll;
}

function afterEnd(world: World): Step {
  const { backup, task, now } = world;
  const observed = observedOf(backup);
  const lookAt = nextLookAt(observed);
  if (lookAt === undefined) {
    // while a server may still send parts, none of them can be removed for good
    return observed.upload_id === undefined || task !== undefined ? { do: 'rest' } : { do: 'tidy' };
  }
  if (isGoodBackup(observed)) {
    if (isOver(world)) return { do: world.expiringMs < patience.expiringMs ? 'mark' : 'expire' };
    if (observed.expiring === true) return { do: 'keep' };
  }
  return now.getTime() >= lookAt ? { do: 'look' } : { do: 'rest' };
}

/** When the bucket is asked for the object of a backup that was completed, in milliseconds since the epoch; `undefined`: never. */
export function nextLookAt({ phase, verified_at, lost }: Observed): number | undefined {
  if (phase === 'completed' && lost !== undefined) return Date.parse(lost.looked_at) + patience.doubtMs;
  if (phase === 'completed') return Date.parse(verified_at ?? '') + patience.lookMs;
  return phase === 'failed' && lost !== undefined ? Date.parse(lost.looked_at) + patience.lookMs : undefined;
}

/**
 * What is known of a backup that was completed, once its bucket was asked for its object. A bucket that was renamed, or a
 * proxy in front of it, can say for a while that there is none: one such answer decides nothing, and what is lost may be found
 * again. Pure.
 */
export function afterLook(before: Observed, bytes: number | undefined, at: string): Observed {
  const { lost, error: _, ...rest } = before;
  if (bytes !== undefined && bytes === before.size_bytes) return { ...rest, phase: 'completed', verified_at: at };
  const now = { ...before, lost: { since: lost?.since ?? at, looked_at: at } };
  return lost === undefined ? now : { ...now, phase: 'failed', error: bytes === undefined ? missing : notWhole };
}

function begin(world: World): Step {
  const { backup, server, destination, leftMs } = world;
  if (leftMs <= 0) return { do: 'fail', error: notStarted };
  if (world.isReplaced) return untilReplaced(world);
  if (destination?.observed?.phase === 'unreachable')
    return { do: 'wait', because: `destination ${destination.desired.name} to be reachable` };
  if (server?.observed?.phase === 'offline') return { do: 'wait', because: 'its server to answer' };
  const because = lacking(world);
  if (because !== undefined) return { do: 'wait', because };
  const { upload_id, has_surplus } = backup.observed ?? {};
  return upload_id === undefined || has_surplus === true ? { do: 'begin' } : sending;
}

/** What there is to be for a backup that is not there; `undefined`: all is. */
function lacking({ backup, database, instance, volume }: World): Because | undefined {
  const { of, name } = backup.desired;
  if (of.kind === 'volume') {
    const phase = volume?.observed?.phase;
    return phase === 'available' || phase === 'bound' ? undefined : `volume ${name} to be on its server`;
  }
  const isServed = database?.observed?.phase === 'running' && instance?.observed?.ready === true;
  return isServed ? undefined : `database ${name} to serve`;
}

/** What is sent now would be of data that is given up, and the newest backup all the same. */
function untilReplaced({ backup }: World): Step {
  return { do: 'wait', because: `the restore of ${backup.desired.name} to end` };
}

const sending: Step = { do: 'send', because: 'its server to send it' };

/** What is gone without which nothing can be sent; `undefined`: all is there. */
function lackOf(world: World, needs: readonly ('database' | 'volume' | 'server' | 'destination')[]): Step | undefined {
  const lack = needs.find((kind) => !isStaying(world[kind]));
  if (lack === undefined) return undefined;
  const message = `Its ${lack} was deleted before it was completed`;
  return { do: 'fail', error: { code: `${lack}_gone`, message } };
}

/** Its time is over, nothing reads it, and it is not the last good one. */
function isOver({ backup, hasSuccessor, isRead, now }: World): boolean {
  const { expires_at, pinned } = backup.desired;
  return expires_at !== undefined && !pinned && !isRead && hasSuccessor && Date.parse(expires_at) <= now.getTime();
}

/** The phase of a backup whose server works on it. */
function phaseOf(world: World): Exclude<BackupPhase, 'completed' | 'failed' | 'expired'> {
  const { backup, task } = world;
  const state = sendingOf(world);
  if (state.outcome === 'succeeded') return 'verifying';
  const isRunning = task?.observed?.phase === 'running' || task?.observed?.phase === 'succeeded';
  return state.outcome === 'running' && isRunning
    ? 'running'
    : backup.observed?.phase === 'running' || backup.observed?.phase === 'verifying'
      ? 'running'
      : 'pending';
}

/** What is known of a backup that goes on. */
export function goesOn(world: World): Observed {
  const before = observedOf(world.backup);
  const phase = phaseOf(world);
  return defined({
    ...before,
    phase,
    started_at: before.started_at ?? (phase === 'pending' ? undefined : world.now.toISOString()),
  });
}

export function observedOf({ observed }: Backup): Observed {
  const {
    phase,
    upload_id,
    uploads,
    has_surplus,
    expected_bytes,
    size_bytes,
    dump_bytes,
    checksum_sha256,
    etag,
    log,
    started_at,
    finished_at,
    verified_at,
    lost,
    expiring,
    proven_at,
    verification,
    changed_files,
    left_out,
    notes,
    error,
  } = observed === undefined ? { phase: 'pending' as const } : plainCopy<Observed>(observed);
  // an earlier release noted no more of one that was lost
  const isLost =
    phase === 'failed' && size_bytes !== undefined && (error?.code === 'missing' || error?.code === 'not_whole');
  const lostSince = isLost ? finished_at : undefined;
  return defined({
    phase,
    upload_id,
    uploads,
    has_surplus,
    expected_bytes,
    size_bytes,
    dump_bytes,
    checksum_sha256,
    etag,
    log,
    started_at,
    finished_at,
    verified_at,
    lost: lost ?? (lostSince === undefined ? undefined : { since: lostSince, looked_at: lostSince }),
    expiring,
    proven_at,
    verification,
    changed_files,
    left_out,
    notes,
    error,
  });
}

/** What is known of a backup, with what its restores have shown. Pure. */
export function withVerification({ restores }: World, now: Observed): Observed {
  const shown = restores
    .flatMap((it) => verificationOf(it) ?? [])
    .toSorted((a, b) => (a.at < b.at ? 1 : -1))
    .find(({ at }) => at > (now.verification?.at ?? ''));
  if (shown === undefined) return now;
  return defined({
    ...now,
    verification: shown,
    proven_at: shown.status === 'proven' ? shown.at : now.proven_at,
  });
}

/** Failures that show nothing of a backup. */
const notOfBackup: readonly string[] = [
  'cancelled',
  'backup_gone',
  'database_gone',
  'destination_gone',
  'no_turn',
  'server_gone',
  'volume_gone',
];

/**
 * What a restore has shown of its backup; `undefined`: nothing, as it is for use and failed, was cancelled, or never came to
 * read it.
 */
function verificationOf(it: ReadonlyResource<'restore'>): Observed['verification'] {
  const { phase, started_at: started, finished_at: at, error } = it.observed ?? {};
  if (at === undefined) return undefined;
  const head = { at, restore_id: it.meta.id };
  if (phase === 'completed') return { status: 'proven', ...head };
  if (!isDrill(it) || started === undefined || error === undefined || notOfBackup.includes(error.code))
    return undefined;
  return { status: 'not_proven', ...head, error: { ...error } };
}

const cancelled: Fault = { code: 'cancelled', message: 'The backup was cancelled, and what was sent is removed' };
const servesFromAnother: Fault = {
  code: 'archive_ended',
  message: 'The database serves from another volume by now, whose log is another one: that has base backups of its own',
};
const notArchived: Fault = {
  code: 'archive_ended',
  message:
    'The writes of the database are not archived any more, or go to another destination, so that these files would be of no use',
};
const lost: Fault = {
  code: 'interrupted',
  message: 'Its server lost it several times before it was sent: look at the server, and begin another backup',
};
const late: Fault = {
  code: 'server_away',
  message: 'Its server did not report what became of it: look at the server, and begin another backup',
};
const notStarted: Fault = {
  code: 'not_started',
  message:
    'It could not begin within an hour: see whether what it is of is there and serves, its server answers and the destination is reachable, and begin another backup',
};

/** The bucket has lost the object of a completed backup. */
export const missing: Fault = {
  code: 'missing',
  message:
    'The bucket has no such object any more: find out who removed it, for example a rule of the bucket, and make another backup. It is looked for every day, and is good again once it is there',
};

/** What is in the bucket is not what was sent. */
export const notWhole: Fault = {
  code: 'not_whole',
  message:
    'The bucket has an object of another size or content than was sent: look at its service, and make another backup',
};

export function conditionsOf(world: World, now: Observed, waits: Because | undefined): ConditionInput[] {
  return [ready(world, now, waits), ...agentTooOld([world.task?.observed?.error])];
}

function ready(
  { server }: World,
  { phase, error, lost, expiring }: Observed,
  waits: Because | undefined,
): ConditionInput {
  const is = (status: ConditionInput['status'], reason: string, message: string): ConditionInput => ({
    type: 'Ready',
    status,
    reason,
    message,
  });
  switch (phase) {
    case 'completed':
      if (expiring === true) return is('false', 'Expiring', 'Its time is over, and its object is being removed');
      if (lost !== undefined)
        return is(
          'unknown',
          'NotFound',
          'The bucket did not have it at the last look: it is asked again within an hour',
        );
      return is('true', 'Completed', 'The bucket has all of it, by size and checksum');
    case 'failed':
      return is('false', error?.code === 'missing' ? 'Missing' : 'Failed', error?.message ?? '');
    case 'expired':
      return is('false', 'Expired', 'Its time is over, and its object was removed');
    case 'verifying':
      return is('false', 'Verifying', 'All of it was sent, and the bucket is asked whether it has it');
    case 'running':
      if (server?.observed?.phase === 'offline')
        return is('unknown', 'ServerAway', 'Its server does not answer, so it is not known how far it is');
      return is('false', 'Running', 'Its server sends it to the bucket');
    case 'pending':
      return is('false', 'Pending', waits === undefined ? 'It begins soon' : `It waits for ${waits}`);
  }
}
