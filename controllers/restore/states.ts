import { engines } from '../../databases/engines.ts';
import { defined } from '../../store/defined.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { isDrill } from '../../store/new-drill.ts';
import { isDeleting, isKind, isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { revisionOf } from '../backup/order.ts';
import { agentTooOld, failureOf } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { hasGapWithin } from '../../store/recovery-window.ts';
import { taskState } from '../task/task.ts';

export type Restore = ReadonlyResource<'restore'>;
export type Observed = ObservedOf<'restore'>;
type Fault = NonNullable<Observed['error']>;
type Volume = ReadonlyResource<'volume'>;

/** Attempts of a restore that its server loses. */
const attemptsInAll = 3;

/** Durations in milliseconds. */
export const patience = {
  /** Until the new volume and the instance beside the one that serves are there. */
  prepareMs: 30 * 60_000,
  /** Until the database serves from the new volume; then it goes back to the former one. */
  switchMs: 15 * 60_000,
  /** For so long what was recovered is kept beside what serves. */
  holdMs: 7 * 24 * 60 * 60_000,
  /** Until the restores and the other drills of its server have ended; then until its server has a turn for it. */
  turnMs: 24 * 60 * 60_000,
  /** Until commands that may write to the volume have ended, which have at most a day each. */
  quietMs: 25 * 60 * 60_000,
} as const;

/** What the phase of a restore follows from. */
export interface World {
  restore: Restore;
  backup: ReadonlyResource<'backup'> | undefined;
  database: ReadonlyResource<'database'> | undefined;
  destination: ReadonlyResource<'backup_destination'> | undefined;
  /** The one whose data is restored. */
  target: ReadonlyResource<'volume'> | undefined;
  /** Applications that mount that one, or are to mount it. */
  mounting: readonly ReadonlyResource<'application'>[];
  /** Functions that mount it, or are to mount it. */
  functions: readonly ReadonlyResource<'function'>[];
  /** The new one of this attempt. */
  volume: ReadonlyResource<'volume'> | undefined;
  /** The one that its database served from before the pointer was changed; absent: it is gone, or is none of its own. */
  former: ReadonlyResource<'volume'> | undefined;
  /** The new volume is by now the former one of another restore, which goes on and may go back to it. */
  isFormer: boolean;
  server: ReadonlyResource<'server'> | undefined;
  /** Beside the one that serves, on the new volume. */
  side: Assignment | undefined;
  /** Serves the database. */
  serving: Assignment | undefined;
  /** Reads the backup into the new volume. */
  task: Assignment | undefined;
  /** Of a recovery: the log that it reads, and what waits until the instance has come to the wanted time. */
  archive: ReadonlyResource<'wal_archive'> | undefined;
  recovery: Assignment | undefined;
  /**
   * For which others it waits. `of restores`: a restore or another drill on its server comes first, or has not gone yet.
   * `on server`: its task waits there behind others, which may also be backups. `of command`: all was read, and `command` goes on.
   */
  turn: 'of restores' | 'on server' | 'of command' | undefined;
  /** A command that has not ended and may write to the volume that is restored. */
  command: ReadonlyResource<'run'> | undefined;
  /** Milliseconds that it may still be in the stage that it is in; 0 or less: it is late. */
  leftMs: number;
  now: Date;
}

/** What a restore does next. */
export type Step =
  | { do: 'wait'; because: Because }
  /** Begin another attempt, as the server lost this one. */
  | { do: 'again' }
  /** Remove what earlier attempts left. */
  | { do: 'clear'; because: Because }
  /** Make the volume of another attempt. */
  | { do: 'make' }
  /** Have the instance beside the one that serves, on the new volume. */
  | { do: 'start_side'; because: Because }
  /** Have the backup read into the new volume. */
  | { do: 'read'; because: Because }
  /** Have the instance come to the wanted time, and be checked. */
  | { do: 'recover'; because: Because }
  /** Leave the instance as it is, until somebody decides. */
  | { do: 'hold'; because: Because }
  /** End the instance beside the one that serves, by its graceful end. */
  | { do: 'stop_side'; because: Because }
  /** Let the database serve from the new volume. */
  | { do: 'switch' }
  | { do: 'complete' }
  /** Note that the database is to serve from the former volume again, before it does. */
  | { do: 'turn_back' }
  /** Give up; `goesBack`: the database serves from the former volume again. */
  | { do: 'fail'; error: Fault; goesBack?: true }
  /** Remove what a restore that was given up left. */
  | { do: 'tidy' }
  | { do: 'rest' };

/**
 * What is next for a restore. Pure. The database serves from its former volume until all of the backup was read and checked.
 * A drill ends there.
 */
export function stepOf(world: World): Step {
  const step = nextStep(world);
  return step.do === 'switch' && isDrill(world.restore) ? { do: 'complete' } : step;
}

function nextStep(world: World): Step {
  const { restore } = world;
  const { phase = 'pending', former_volume_id: former } = restore.observed ?? {};
  if (hasRestoreEnded(phase)) return isTidy(world) ? { do: 'rest' } : { do: 'tidy' };
  if (phase === 'switching' && former !== undefined) return switching(world);
  if (restore.desired.cancel_requested || isDeleting(restore)) return { do: 'fail', error: cancelled };
  const { database } = world;
  const hindrance = hindranceOf(world);
  if (restore.desired.of.kind === 'volume') return hindrance ?? withVolume(world) ?? byArchive(world);
  if (hindrance !== undefined || database === undefined) return hindrance ?? { do: 'fail', error: databaseGone };
  if (restore.desired.recovery !== undefined) return withVolume(world) ?? byRecovery(world, restore.desired.recovery);
  return (
    withVolume(world) ??
    (engines[database.desired.type].dump?.restore.by === 'files' ? byFiles(world) : byCommand(world))
  );
}

/** What makes the restore fail, or a drill wait for others; `undefined`: nothing. */
function hindranceOf(world: World): Step | undefined {
  const isOfVolume = world.restore.desired.of.kind === 'volume';
  const isOfBackup = world.restore.desired.source === undefined;
  const ofBackup = ['backup', 'destination'] as const;
  const needs = [isOfVolume ? 'target' : 'database', 'server', ...(isOfBackup ? ofBackup : [])] as const;
  const lack = needs.find((kind) => !isStaying(world[kind]));
  if (lack !== undefined) {
    const word = lack === 'target' ? 'volume' : lack;
    return { do: 'fail', error: { code: `${word}_gone`, message: `Its ${word} was deleted` } };
  }
  if (world.volume?.observed?.phase === 'error') return { do: 'fail', error: noVolume };
  if (world.leftMs > 0) return world.turn === 'of restores' ? awaiting : undefined;
  return { do: 'fail', error: lateness(world) };
}

/** Why the time is over. */
function lateness({ turn, restore: { desired, observed } }: World): Fault {
  if (turn === 'of restores') return noTurn;
  if (turn === 'on server') return notTaken;
  if (turn === 'of command') return notQuiet;
  return observed?.held_since !== undefined && desired.switch_requested ? notSwitched : late;
}

/** What is needed until the new volume of this attempt is there; `undefined`: it is. */
function withVolume(world: World): Step | undefined {
  const { restore, volume } = world;
  if (isOfEarlier(world)) return { do: 'clear', because: 'what its server lost to be removed' };
  if (volume === undefined && attemptOf(restore) > 1) return { do: 'make' };
  const isThere = volume?.observed?.phase === 'available';
  return isThere ? undefined : { do: 'wait', because: 'its new volume to be on its server' };
}

/** An empty instance reads the backup. */
function byCommand(world: World): Step {
  const state = taskState('restore', world.task);
  if (state.outcome === 'absent' || state.outcome === 'waiting' || state.outcome === 'running') {
    if (isReady(world.side)) return reading;
    if (world.task !== undefined && upToDate(world.task)?.phase === 'running') return reading;
    return failedSide(world) ?? starting;
  }
  return afterTask(world) ?? (world.side === undefined ? { do: 'switch' } : stopping);
}

/** The files are put there before an instance begins, which shows by being ready that it could read them. */
function byFiles(world: World): Step {
  const state = taskState('restore', world.task);
  if (state.outcome !== 'succeeded') return afterTask(world) ?? reading;
  if (world.restore.observed?.phase === 'switching') return world.side === undefined ? { do: 'switch' } : stopping;
  return isReady(world.side) ? stopping : (failedSide(world) ?? starting);
}

/** The files are put into the new volume, which nothing mounts before. */
function byArchive(world: World): Step {
  const { outcome } = taskState('restore', world.task);
  if (outcome !== 'succeeded') return afterTask(world) ?? reading;
  return untilQuiet(world) ?? { do: 'switch' };
}

/** A command that may write to the volume goes on. */
function untilQuiet({ command }: World): Step | undefined {
  if (command === undefined) return undefined;
  return { do: 'wait', because: `command ${command.meta.id}, which may write to the volume, to end` };
}

/** The copy of all files and the log are put there before an instance begins, which then comes to the wanted time. */
function byRecovery(world: World, wanted: Recovery): Step {
  const { restore, side, recovery } = world;
  if (taskState('restore', world.task).outcome !== 'succeeded') return untilRead(world, wanted);
  const recovered = taskState('recovery', recovery);
  switch (recovered.outcome) {
    case 'succeeded':
      break;
    case 'failed':
      return { do: 'fail', error: recovered.error };
    case 'lost':
      return attemptOf(restore) < attemptsInAll ? { do: 'again' } : { do: 'fail', error: recovered.error ?? lost };
    case 'absent':
      return isReady(side) ? recovering : (failedSide(world) ?? starting);
    case 'waiting':
    case 'running':
      return recovering;
  }
  if (restore.observed?.phase === 'switching') return side === undefined ? { do: 'switch' } : stopping;
  return wanted.holds && !restore.desired.switch_requested ? holding : stopping;
}

/** The log is known to be whole before it is fetched. */
function untilRead(world: World, { first_segment, last_segment }: Recovery): Step {
  const { restore, archive, task } = world;
  if (!isStaying(archive)) return { do: 'fail', error: archiveGone };
  if (task !== undefined) return afterTask(world) ?? reading;
  const isChecked = (archive.observed?.checked_for ?? 0) >= revisionOf(restore);
  if (!isChecked) return { do: 'wait', because: 'its archive to be compared with what the bucket has' };
  return hasGapWithin(archive, first_segment, last_segment) ? { do: 'fail', error: logGone } : reading;
}

type Recovery = NonNullable<Restore['desired']['recovery']>;

/** What an end of the task leads to that was none for good; `undefined`: go on. */
function afterTask({ task, restore }: World): Step | undefined {
  const state = taskState('restore', task);
  if (state.outcome === 'failed') return { do: 'fail', error: state.error };
  if (state.outcome === 'lost')
    return attemptOf(restore) < attemptsOf(restore) ? { do: 'again' } : { do: 'fail', error: state.error ?? lost };
  return undefined;
}

/** A task or the instance is of an earlier attempt. */
function isOfEarlier({ restore, task, recovery, side }: World): boolean {
  const id = volumeIdOf(restore);
  const isTaskOld = [task, recovery].some((it) => {
    const spec = it?.desired.spec;
    return (spec?.type === 'restore' || spec?.type === 'recovery') && spec.volume !== volumeName(id);
  });
  return isTaskOld || (side !== undefined && side.desired.version !== id);
}

/** What was made for a volume is that volume: another attempt would be another one. */
function attemptsOf({ desired }: Restore): number {
  return desired.of.kind === 'volume' && desired.is_new ? 1 : attemptsInAll;
}

export function attemptOf({ observed }: Restore): number {
  return observed?.attempt ?? 1;
}

/** The new volume of the present attempt. */
export function volumeIdOf(restore: Restore): string {
  return volumeOfAttempt(restore, attemptOf(restore));
}

/** The new volume of an attempt, the first being 1. */
export function volumeOfAttempt({ desired }: Restore, attempt: number): string {
  return attempt === 1 ? desired.volume_id : uuidv5(desired.volume_id, `attempt/${attempt}`);
}

function failedSide({ side }: World): Step | undefined {
  const failure = side && failureOf(side);
  return (
    failure && { do: 'fail', error: { code: failure.code, message: `Its instance does not start: ${failure.message}` } }
  );
}

/** The pointer is changed: whether the database serves decides. */
function switching(world: World): Step {
  const { database, serving, leftMs, restore, server, former } = world;
  if (restore.desired.of.kind === 'volume') return exchanging(world);
  if (database === undefined) return { do: 'fail', error: databaseGone };
  const hasMoved = database.desired.data_volume_id === volumeIdOf(restore);
  const isLate = leftMs <= 0;
  if (restore.observed?.goes_back === true) {
    if (hasMoved && !isStaying(former)) return { do: 'fail', error: noWayBack };
    return { do: 'fail', error: notServing, ...(hasMoved && { goesBack: true }) };
  }
  if (!hasMoved) return isLate ? { do: 'fail', error: late } : { do: 'switch' };
  if (database.desired.run === 'stopped') return { do: 'complete' };
  if (isReady(serving)) return { do: 'complete' };
  // it may serve, and have taken writes
  if (server?.observed?.phase === 'offline') return { do: 'wait', because: 'its server to answer' };
  if (isLate && !isStaying(former)) return { do: 'fail', error: noWayBack };
  return isLate
    ? { do: 'turn_back' }
    : { do: 'wait', because: `database ${database.desired.name} to serve what was restored` };
}

/** The data of the volume is exchanged, or about to be. */
function exchanging(world: World): Step {
  if (isInPlace(world)) return { do: 'complete' };
  if (world.target === undefined || world.volume === undefined) return { do: 'fail', error: volumeGone };
  // one that was asked for since the switch was noted still has the former data
  const isExchanged = world.target.desired.data_id === volumeIdOf(world.restore);
  return (isExchanged ? undefined : untilQuiet(world)) ?? { do: 'switch' };
}

/** The volume has what was restored, and all that mounts it mounts that. */
function isInPlace({ restore, target, mounting, functions }: World): boolean {
  const { bind, is_new: isNew } = restore.desired;
  if (isNew) return bind === undefined || !canMount(mounting[0] ?? functions[0], bind, target);
  const users = [...mounting, ...functions];
  return target?.desired.data_id === volumeIdOf(restore) && users.every((it) => isMountedRight(it, target));
}

function isMountedRight(
  { desired }: World['mounting'][number] | World['functions'][number],
  { meta, desired: { data_id } }: Volume,
): boolean {
  return desired.mounts.every((mount) => mount.volume_id !== meta.id || mount.data_id === data_id);
}

/** Whether a workload can mount a volume there that it does not mount yet. */
export function canMount(
  workload: ReadonlyResource<'application'> | ReadonlyResource<'function'> | undefined,
  { path, read_only: readOnly }: { path: string; read_only: boolean },
  volume: Volume | undefined,
): workload is ReadonlyResource<'application'> | ReadonlyResource<'function'> {
  if (!isStaying(workload) || !isStaying(volume)) return false;
  const { mounts, server_id } = workload.desired;
  const isShared = isKind(workload, 'application') && workload.desired.replicas > 1;
  const isTaken = mounts.some((it) => `${it.path}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${it.path}/`));
  return !isTaken && server_id === volume.desired.server_id && (readOnly || !isShared);
}

function isReady(instance: Assignment | undefined): boolean {
  return instance !== undefined && upToDate(instance)?.ready === true;
}

/** Nothing of it is left but what the database serves from, or did so until it went back. */
function isTidy({ task, side, recovery, volume, restore, database, isFormer }: World): boolean {
  if (task !== undefined || side !== undefined || recovery !== undefined) return false;
  return (
    isFormer ||
    (restore.observed?.phase === 'completed' && !isDrill(restore)) ||
    volume === undefined ||
    volume.desired.data_id !== undefined ||
    volume.desired.expires_at !== undefined ||
    database?.desired.data_volume_id === volume.meta.id
  );
}

const awaiting: Step = { do: 'wait', because: 'the restores and drills before it on its server to end' };
const starting: Step = { do: 'start_side', because: 'an instance on its new volume to be ready' };
const reading: Step = { do: 'read', because: 'its server to read the backup' };
const recovering: Step = { do: 'recover', because: 'the instance on its new volume to come to the wanted time' };
const holding: Step = { do: 'hold', because: 'somebody to have the database switched, or to cancel it' };
const stopping: Step = { do: 'stop_side', because: 'the instance on its new volume to end' };

const cancelled: Fault = {
  code: 'cancelled',
  message: 'The restore was cancelled: everything has the data that it had before',
};
const lost: Fault = {
  code: 'interrupted',
  message:
    'Its server lost it in the middle several times: what was restored is thrown away. Look at the server, and begin it again',
};
const late: Fault = {
  code: 'timeout',
  message: 'It took too long: see the conditions of its server and of its volume, and begin it again',
};
const notSwitched: Fault = {
  code: 'timeout',
  message:
    'The instance on its new volume did not end in time, so that the database was not switched. What was recovered stays for a week: once the instance has ended, switch to its volume as to a former one',
};
const noTurn: Fault = {
  code: 'no_turn',
  message:
    'Other restores and drills of its server took a day: let schedules verify less often, or at other times, and verify the backup by hand',
};
const notTaken: Fault = {
  code: 'no_turn',
  message:
    'Its server did not begin to read it for a day: it sent and read other backups, or did not answer. Begin it again when those have ended',
};
const notQuiet: Fault = {
  code: 'volume_in_use',
  message:
    'Commands that may write to the volume went on for more than a day: wait until they have ended, or cancel them, and begin the restore again',
};
const noVolume: Fault = {
  code: 'no_volume',
  message: 'Its server cannot make a new volume: see the conditions of the server, and begin it again',
};
const archiveGone: Fault = { code: 'archive_gone', message: 'The archive that it recovers from was removed' };
const logGone: Fault = {
  code: 'log_gone',
  message:
    'The bucket has lost a part of the log that leads to the wanted time: see the gaps of the recovery window, and choose another time',
};
const volumeGone: Fault = { code: 'volume_gone', message: 'Its volume was deleted before it had what was restored' };
const databaseGone: Fault = { code: 'database_gone', message: 'Its database was deleted' };
const notServing: Fault = {
  code: 'not_serving',
  message:
    'The database was not ready with what was restored: it serves from its former data again. See its log for the reason. The volume with what was restored stays for a week, as clients may have written to it',
};

const noWayBack: Fault = {
  code: 'not_serving',
  message:
    'The database was not ready with what was restored, and its former volume is gone or is of another database: it still serves what was restored. See its log for the reason',
};

/** What is known after a step. Pure. */
export function observedAfter(world: World, step: Step): Observed {
  const { restore, now } = world;
  const before = defined({ ...observedOf(restore), recovered_until: recoveredUntil(world) });
  const at = now.toISOString();
  const begun = { ...before, started_at: before.started_at ?? at };
  switch (step.do) {
    case 'fail':
      return { ...before, phase: 'failed', error: step.error, finished_at: at };
    case 'complete':
      return { ...before, phase: 'completed', finished_at: at };
    case 'start_side':
      return { ...begun, phase: restore.desired.recovery === undefined ? 'preparing' : 'verifying' };
    case 'recover':
      return { ...begun, phase: 'verifying' };
    case 'hold':
      return { ...begun, phase: 'ready_to_switch', held_since: before.held_since ?? at };
    case 'read':
      return { ...begun, phase: 'restoring' };
    case 'stop_side':
      return { ...begun, phase: 'switching' };
    case 'again': {
      const attempt = attemptOf(restore) + 1;
      return { ...begun, phase: 'preparing', attempt, volume_id: volumeOfAttempt(restore, attempt) };
    }
    case 'switch':
      return { ...begun, phase: 'switching', former_volume_id: before.former_volume_id ?? servedFrom(world) };
    case 'turn_back':
      return { ...before, goes_back: true };
    case 'wait':
    case 'clear':
    case 'make':
    case 'tidy':
    case 'rest':
      return before;
  }
}

/** The volume that the database serves from before the switch. */
function servedFrom({ restore, database }: World): string {
  return database?.desired.data_volume_id ?? volumeIdOf(restore);
}

function recoveredUntil({ restore, recovery }: World): string | undefined {
  const state = taskState('recovery', recovery);
  return (state.outcome === 'succeeded' ? state.result.last_commit_at : undefined) ?? restore.observed?.recovered_until;
}

export function observedOf({ observed }: Restore): Observed {
  const now: Observed = observed === undefined ? { phase: 'pending' } : plainCopy<Observed>(observed);
  const { phase, attempt, volume_id, recovered_until, started_at, finished_at, former_volume_id } = now;
  const { held_since, goes_back, error } = now;
  return defined({
    phase,
    attempt,
    volume_id,
    recovered_until,
    started_at,
    finished_at,
    former_volume_id,
    held_since,
    goes_back,
    error,
  });
}

export function conditionsOf(
  { restore, task, side, server }: World,
  now: Observed,
  waits: Because | undefined,
): ConditionInput[] {
  const phase = isDrill(restore) && now.phase === 'switching' ? ('verifying' as const) : now.phase;
  const ready = readyOf({ ...now, phase }, server, waits);
  const isProven = isDrill(restore) && phase === 'completed';
  return [
    isProven ? { ...ready, message: provenWords } : ready,
    ...agentTooOld([task?.observed?.error, side?.observed?.error]),
  ];
}

/** What a drill that went well has shown. */
export const provenWords = 'All of the backup was restored and read, and what was restored is removed';

function readyOf({ phase, error }: Observed, server: World['server'], waits: Because | undefined): ConditionInput {
  const is = (status: ConditionInput['status'], reason: string, message: string): ConditionInput => ({
    type: 'Ready',
    status,
    reason,
    message,
  });
  if (phase === 'completed') return is('true', 'Completed', 'What was restored is in its place');
  if (phase === 'failed') return is('false', 'Failed', error?.message ?? '');
  if (phase === 'ready_to_switch')
    return is('false', 'ReadyToSwitch', 'It has what is wanted, and the database serves what it served before');
  if (server?.observed?.phase === 'offline')
    return is('unknown', 'ServerAway', 'Its server does not answer, so it is not known how far it is');
  const reason = `${phase.charAt(0).toUpperCase()}${phase.slice(1)}`;
  return is('false', reason, waits === undefined ? 'It goes on' : `It waits for ${waits}`);
}
