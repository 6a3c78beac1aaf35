import { engines } from '../../databases/engines.ts';
import { defined } from '../../store/defined.ts';
import type { DatabasePhase } from '../../store/kinds/database.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput } from '../../store/resource.ts';
import { agentTooOld, hasCode, meaningOf } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import { healthOf } from '../rollout/health.ts';
import { loopMessage } from '../rollout/last-exit.ts';
import { isLive, isMadeAs, restartTokenOf } from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';
import { withVolumeNames } from '../rollout/mounted.ts';
import type { Because } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { isAwaitingAgent } from '../server/states.ts';
import { encryptedCondition } from './encryption.ts';
import { instanceDesired } from './instance.ts';
import { pooledCondition } from './pooler-states.ts';
import { dataVolume, pinnedDigest } from './world.ts';
import type { World } from './world.ts';

/** The phase of a database and why. */
export interface State {
  phase: DatabasePhase;
  ready: ConditionInput['status'];
  reason: string;
  message: string;
  /** What it waits for; absent: nothing. */
  because?: Because;
}

/**
 * The phase table. Pure: it follows from the database, its volume, its instance and its server. It uses the phase observed
 * before only to distinguish a short failure from a start.
 */
export function stateOf(world: World): State {
  const { database, server } = world;
  if (!isStaying(database)) return deleting(world);
  if (database.desired.run === 'stopped') return stoppedState(world);
  if (server === undefined)
    return {
      phase: 'error',
      ready: 'unknown',
      reason: 'ServerGone',
      message:
        'Its server was deleted. Its data stays on that machine, out of reach of Setpoint: copy what matters from there, and delete the database',
    };
  const away = awayState(world);
  if (away !== undefined) return away;
  return volumeState(world) ?? servingState(world);
}

function deleting({ slots, poolers }: World): State {
  const message = slots.length + poolers.length > 0 ? 'It is being stopped and removed' : 'Its data is being removed';
  return {
    phase: 'deleting',
    ready: 'false',
    reason: 'Deleting',
    message,
    because: 'its instance and its data to be gone',
  };
}

function stoppedState(world: World): State {
  const { server, slots, poolers } = world;
  // an agent that joins later starts nothing that was stopped before
  const isReceived = server === undefined || !isAwaitingAgent(server);
  if (!isReceived || ![...slots, ...poolers].some(isLive))
    return { phase: 'stopped', ready: 'false', reason: 'Stopped', message: 'It is stopped, as desired' };
  const away = awayState(world);
  if (away !== undefined)
    return { ...away, message: 'Its server does not answer, so it is not known whether it stopped' };
  const message = 'It ends its connections and writes what it has in memory';
  return { phase: 'running', ready: 'false', reason: 'Stopping', message, because: 'its instance to stop' };
}

/** Nothing is known of what runs while the server or its container engine does not answer. */
function awayState({ database, server }: World): State | undefined {
  const phase = server?.observed?.phase;
  if (phase !== 'offline' && phase !== 'error') return undefined;
  const what = phase === 'offline' ? 'Its server does' : 'The container engine of its server does';
  const seen = phase === 'offline' ? 'ServerOffline' : 'EngineNotReady';
  return {
    phase: database.observed?.initialised === true ? 'error' : 'provisioning',
    ready: 'unknown',
    reason: seen,
    message: `${what} not answer, so it is not known what runs there: see the conditions of the server`,
    because: 'its server to answer',
  };
}

/** What the volume with the data holds up; `undefined`: nothing. */
function volumeState(world: World): State | undefined {
  const volume = dataVolume(world);
  const ready = volume?.observed?.conditions.find(({ type }) => type === 'Ready');
  const message = ready?.message ?? 'Its server is creating it';
  switch (volume?.observed?.phase) {
    case 'bound':
    case 'available':
      return undefined;
    case 'error':
      return {
        phase: 'error',
        ready: 'false',
        reason: ready?.reason === 'DataLost' ? 'DataLost' : 'VolumeNotReady',
        message: `Its volume is in error: ${message}`,
        because: 'its volume to be put right',
      };
    default:
      return {
        phase: world.database.observed?.initialised === true ? 'error' : 'provisioning',
        ready: 'false',
        reason: 'WaitingForVolume',
        message: `It waits for its volume: ${message}`,
        because: 'its volume to be there',
      };
  }
}

function servingState(world: World): State {
  const { database, unreadyTooLong } = world;
  const { word } = engines[database.desired.type];
  const { instances, lacking, errors, isCrashLooping } = health(world);
  const because = 'it to become ready';
  const loop = `${loopMessage(instances)}${orParametersOf(world)}`;
  // what keeps exiting is in trouble also while it answers for a moment
  if (lacking === 0 && isCrashLooping)
    return {
      phase: 'running',
      ready: 'false',
      reason: 'CrashLoop',
      message: loop,
      ...(isChanging(world) && { because }),
    };
  if (lacking === 0 && !isChanging(world))
    return { phase: 'running', ready: 'true', reason: 'Running', message: `${word} answers queries` };
  const why = hindrance(errors, world);
  const orParameters = orParametersOf(world);
  const down = (reason: string, message: string): State => ({
    phase: 'error',
    ready: 'false',
    reason,
    message,
    because,
  });
  if (errors.some((error) => hasCode(error, 'data_lost'))) return down('DataLost', `It cannot start${why}`);
  if (errors.some((error) => hasCode(error, 'out_of_memory')))
    return down(
      'OutOfMemory',
      `It was killed as it used more memory than its limit: raise memory_limit${orParameters}`,
    );
  if (isCrashLooping) return down('CrashLoop', loop);
  if (errors.some((error) => meaningOf(error).isFatal === true)) return down('CannotStart', `It cannot start${why}`);
  if (unreadyTooLong) return down('NotReady', `It has not become ready${why}${orParameters}`);
  const before = database.observed?.phase;
  if (before === 'running')
    return {
      phase: 'running',
      ready: 'false',
      reason: 'NotReady',
      message: `It is not ready at the moment${why}`,
      because,
    };
  if (before === 'error') return down('NotReady', `It has not become ready${why}`);
  return { phase: 'provisioning', ready: 'false', reason: 'Starting', message: `${word} is starting${why}`, because };
}

function orParametersOf({ database }: World): string {
  return database.desired.parameters === undefined
    ? ''
    : '. If a change of its parameters was the last one, take it back';
}

/** What to do about failures of which the usual remedy speaks of applications. */
const remedies: Readonly<Record<string, string>> = {
  image_not_found: 'let its server reach a registry that has it, and restart the database',
  create_failed: 'change what the engine refuses, and restart the database',
  port_taken: 'free the port on its server, or change exposed_port',
  data_lost: 'put its volume back from a copy, or delete the database',
};

/** `: `, the failure that keeps the instance from being made, and its remedy; empty if none is known. Stable text. */
function hindrance(errors: readonly Failure[], { volumes }: World): string {
  for (const error of errors) {
    const remedy = remedies[error.code] ?? meaningOf(error).remedy;
    if (remedy !== undefined) return `: ${withVolumeNames(error.message, volumes)} (${remedy})`;
  }
  return '';
}

function health({ database, slots }: Pick<World, 'database' | 'slots'>) {
  return healthOf(slots, database.desired.data_volume_id, 1);
}

/** Whether the phase depends on how long it has not been ready; `reconcile.ts` keeps that clock. */
export function isUnready(world: Pick<World, 'database' | 'slots'>): boolean {
  const { database } = world;
  return isStaying(database) && database.desired.run === 'running' && health(world).lacking > 0;
}

/** Whether its instance is yet to be restarted or to be made with other settings, or another one has not ended. */
function isChanging(world: World): boolean {
  const { database, slots, server } = world;
  const { instances } = health(world);
  const token = database.desired.restart_token;
  const isOutdated = (it: Assignment): boolean =>
    restartTokenOf(it) !== token || (server !== undefined && !isMadeAs(it, instanceDesired(world, token)));
  return instances.some(isOutdated) || slots.some((it) => isLive(it) && !instances.includes(it));
}

/** The observed value that follows from the world. */
export function observe(world: World, { phase, ready }: State): ObservedOf<'database'> {
  const before = world.database.observed;
  const { config, rotation } = world.database.desired;
  const isInitialised = before?.initialised === true || ready === 'true';
  return defined({
    phase,
    image_digest: pinnedDigest(world),
    initialised: isInitialised ? (true as const) : undefined,
    config_revision: rotation !== undefined && ready === 'true' ? config.revision : before?.config_revision,
    notified: isTrouble(phase, before?.notified) ? (true as const) : undefined,
  });
}

/** Whether users know, or are told now, that it is in error: until it serves again, or is stopped. */
function isTrouble(phase: DatabasePhase, before: true | undefined): boolean {
  return phase === 'error' || (before === true && phase === 'provisioning');
}

/** Conditions beside the ones that the runtime derives. */
export function conditionsOf(world: World, now: State): ConditionInput[] {
  return [
    { type: 'Ready', status: now.ready, reason: now.reason, message: now.message },
    ...passwordOf(world, now),
    ...encryptedCondition(world),
    ...archived(world),
    ...pooledCondition(world, now),
    ...agentTooOld([...world.slots, ...world.poolers].map((it) => upToDate(it)?.error)),
  ];
}

/** Whether the engine has the password that was asked for last; nothing where none was asked for. */
function passwordOf(world: World, now: State): ConditionInput[] {
  const { rotation } = world.database.desired;
  if (rotation === undefined) return [];
  const type = 'PasswordRotated';
  if ((observe(world, now).config_revision ?? 0) >= rotation.revision)
    return [{ type, status: 'true', reason: 'Rotated', message: 'Its engine has the password that was asked for' }];
  const message = 'Its engine has the former password until it was started anew, and the credentials show that one';
  return [{ type, status: 'false', reason: 'Pending', message }];
}

/** Whether what it writes is in its bucket. */
function archived({ database, archive }: World): ConditionInput[] {
  if (database.desired.archive === undefined) return [];
  const ready = archive?.observed?.conditions.find(({ type }) => type === 'Ready');
  if (ready === undefined)
    return [{ type: 'Archived', status: 'false', reason: 'Starting', message: 'Nothing is in its bucket yet' }];
  const { status, reason, message } = ready;
  return [{ type: 'Archived', status, reason, message }];
}
