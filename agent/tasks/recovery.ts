import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { TaskResult } from '../../agent-protocol/task-types.ts';
import type { Archive, RecoveryStand } from '../../databases/engine.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { diskGuard, watchDisk } from '../disk/disk-guard.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { HeldFolder } from '../disk/held-folder.ts';
import type { Observer } from '../engine/observer.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { answerIn, archiveOf, dumpOf, runningIn } from './data-engine.ts';
import { endOf } from './program-end.ts';
import type { TaskItem, TaskProgress, TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

export interface RecoveryDeps {
  runtime: Pick<ContainerRuntime, 'exec' | 'run' | 'volume'>;
  observer: Pick<Observer, 'of'>;
  disk: () => Promise<DiskSpace>;
  clock: Clock;
}

/** Between two looks how far it is. */
const lookMs = 500;
/** An instance that has not answered for so long has ended its recovery before its target. */
const silenceMs = 120_000;

/** Carries out one attempt of a recovery. */
export type RunRecovery = TaskWork<'recovery'>['run'];

/**
 * Waits until an instance has come to an instant, and lets it take writes once that is shown: it stopped by itself, no commit
 * that it has is later, and all can be read.
 */
export function runRecovery(deps: RecoveryDeps): RunRecovery {
  return async (item, progress, signal) => {
    // what is replayed grows
    using watched = watchDisk(diskGuard(deps.disk), deps.clock, 'go on with the recovery');
    try {
      return await carryOut(deps, item, progress, AbortSignal.any([signal, watched.signal]));
    } catch (error) {
      signal.throwIfAborted();
      watched.signal.throwIfAborted();
      throw error;
    }
  };
}

export function recoveryTask(run: RunRecovery, turns: Turns): TaskWork<'recovery'> {
  return { turns, turnOf: ({ id }) => id, run };
}

async function carryOut(
  deps: RecoveryDeps,
  { spec }: TaskItem<'recovery'>,
  { at }: TaskProgress<'recovery'>,
  signal: AbortSignal,
): Promise<TaskResult<'recovery'>> {
  const { runtime, observer } = deps;
  const archive = archiveOf(spec.engine);
  const target = Date.parse(spec.target_time);
  at({ step: 'replaying' });
  const stopped = await paused(deps, spec.instance, archive, signal);
  if (stopped.lastCommitAt !== undefined && stopped.lastCommitAt > target)
    throw failed(
      `It stopped after a commit of ${new Date(stopped.lastCommitAt).toISOString()}, which is later than ${spec.target_time}`,
    );
  at({ step: 'checking' });
  const container = runningIn(observer, spec.instance);
  await succeeds(deps, container, dumpOf(spec.engine).check, 'What was recovered cannot be read', signal);
  at({ step: 'promoting' });
  await succeeds(deps, container, archive.promote, 'It does not end its recovery', signal);
  const now = await answerIn(deps, spec.instance, archive.stand, signal);
  if (now.isInRecovery || now.timeline <= stopped.timeline)
    throw failed('It has not ended its recovery: it is on the timeline that it recovered');
  const { command, input } = archive.ownPassword;
  await succeeds(deps, container, command, 'Its password cannot be set', signal, [Buffer.from(input)]);
  await clear(runtime, spec.volume, archive.inbox, signal);
  const last = stopped.lastCommitAt;
  return {
    timeline: now.timeline,
    ...(last !== undefined && { last_commit_at: new Date(last).toISOString() }),
  };
}

/** @throws RuntimeFailure if it does not stop at its target */
async function paused(
  deps: RecoveryDeps,
  instance: string,
  archive: Archive,
  signal: AbortSignal,
): Promise<RecoveryStand> {
  const { clock } = deps;
  let answered = clock.monotonic();
  for (;;) {
    try {
      const stand = await answerIn(deps, instance, archive.stand, signal);
      answered = clock.monotonic();
      if (!stand.isInRecovery)
        throw failed('It ended its recovery by itself, so that it is not known where it stopped');
      if (stand.isPaused) return stand;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RuntimeFailure && !error.retryable) throw error;
      if (clock.monotonic() - answered >= silenceMs)
        throw failed(
          `It does not come to the wanted time. The last segment of its log may end before that: ${error instanceof Error ? error.message : ''}`,
        );
    }
    await wait(clock, lookMs, signal);
  }
}

async function succeeds(
  { runtime }: RecoveryDeps,
  container: string,
  command: readonly string[],
  what: string,
  signal: AbortSignal,
  input?: readonly Uint8Array[],
): Promise<void> {
  const { exitCode, errors } = await endOf(runtime, container, command, signal, input);
  if (exitCode !== 0) throw failed(`${what}: ${errors.trim().slice(-1000)}`);
}

/** Removes the segments that were read. */
async function clear(
  runtime: Pick<ContainerRuntime, 'volume'>,
  volume: string,
  inbox: string,
  signal: AbortSignal,
): Promise<void> {
  const path = (await runtime.volume(volume, signal))?.path;
  if (path === undefined) return;
  const folder = join(path, inbox);
  await using held = await HeldFolder.open(folder);
  await held.remove(await held.names());
  await rmdir(folder);
}

function failed(message: string): RuntimeFailure {
  return new RuntimeFailure('recovery_failed', message, { retryable: false });
}
