import type { Pooler } from '../../databases/engine.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput } from '../../store/resource.ts';
import { hasCode, meaningOf } from '../rollout/failures.ts';
import type { Failure } from '../rollout/failures.ts';
import { healthOf } from '../rollout/health.ts';
import { loopMessage } from '../rollout/last-exit.ts';
import { isMadeAs, restartTokenOf } from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { poolerDesired, poolerOf, poolerToken } from './pooler.ts';
import type { World } from './world.ts';

const type = 'Pooled';

/** How the database is. */
interface Now {
  ready: ConditionInput['status'];
  reason: string;
  message: string;
}

/**
 * Whether clients share connections to a database by its pooler; nothing for a database without one. It says nothing of the
 * engine, which goes on without it.
 */
export function pooledCondition(world: World, now: Now): ConditionInput[] {
  const pooler = poolerOf(world);
  if (pooler === undefined) return [];
  if (world.database.desired.run === 'stopped')
    return [{ type, status: 'false', reason: 'Stopped', message: 'Its pooler stops with it' }];
  if (now.ready === 'unknown') return [{ type, status: 'unknown', reason: now.reason, message: now.message }];
  const because = trouble(world, pooler, now);
  if (because !== undefined) return [{ type, status: 'false', ...because }];
  const message = `${pooler.word} answers queries on port ${pooler.port}`;
  if (world.isPoolerUsed)
    return [
      { type, status: 'true', reason: 'StillUsed', message: `${message} until nothing that runs has its address` },
    ];
  return [{ type, status: 'true', reason: 'Running', message }];
}

/** What a database that has come to rest otherwise waits for of its pooler; `undefined`: nothing. */
export function awaitedPooler(world: World): Because | undefined {
  const { database, poolers } = world;
  if (!isStaying(database)) return undefined;
  const pooler = poolerOf(world);
  if (pooler === undefined) return poolers.length > 0 ? 'its pooler to end' : undefined;
  if (database.desired.run === 'stopped') return undefined;
  if (isServing(world, pooler) || isBeyondWaiting(world)) return undefined;
  return 'its pooler to become ready';
}

/** What its condition tells is not over by itself: nothing is waited for, and its server tells when it changes. */
function isBeyondWaiting({ database, poolers }: World): boolean {
  const { errors, isCrashLooping } = healthOf(poolers, database.meta.id, 1);
  return isCrashLooping || errors.some((error) => hasCode(error, 'out_of_memory') || meaningOf(error).isFatal === true);
}

/** Why queries by the pooler are not answered; `undefined`: they are. */
function trouble(world: World, pooler: Pooler, now: Now): Pick<ConditionInput, 'reason' | 'message'> | undefined {
  const { instances, errors, isCrashLooping } = healthOf(world.poolers, world.database.meta.id, 1);
  if (errors.some((error) => hasCode(error, 'out_of_memory')))
    return { reason: 'OutOfMemory', message: `${pooler.word} was killed as it used more memory than it may` };
  if (isCrashLooping) return { reason: 'CrashLoop', message: loopMessage(instances) };
  if (isServing(world, pooler)) return undefined;
  const fatal = errors.find((error) => meaningOf(error).isFatal === true);
  if (fatal !== undefined) return { reason: 'CannotStart', message: `Its pooler cannot start${hindrance([fatal])}` };
  if (now.ready !== 'true') return { reason: 'WaitingForDatabase', message: 'Its pooler waits for its engine' };
  const why = hindrance(errors);
  if (instances.some((it) => it.observed?.phase === 'running'))
    return { reason: 'NotReady', message: `${pooler.word} does not answer queries at the moment${why}` };
  return { reason: 'Starting', message: `${pooler.word} is starting${why}` };
}

/** Whether its one instance is ready, and as it is to be. */
function isServing(world: World, pooler: Pooler): boolean {
  const { database, poolers } = world;
  const { instances, lacking } = healthOf(poolers, database.meta.id, 1);
  const token = poolerToken(world);
  const isOutdated = (it: Assignment): boolean =>
    restartTokenOf(it) !== token || !isMadeAs(it, poolerDesired(world, pooler, token));
  return lacking === 0 && !instances.some(isOutdated);
}

const remedies: Readonly<Record<string, string>> = {
  image_not_found:
    'let its server reach a registry that has it, or have the operator name another one by --pooler-image',
  create_failed: 'have the operator change what the engine refuses',
};

/** `: `, the failure that keeps it from being made, and its remedy; empty if none is known. */
function hindrance(errors: readonly Failure[]): string {
  for (const error of errors) {
    const remedy = remedies[error.code] ?? meaningOf(error).remedy;
    if (remedy !== undefined) return `: ${error.message} (${remedy})`;
  }
  return '';
}
