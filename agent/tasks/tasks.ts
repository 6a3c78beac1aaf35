import type { RunBackup } from './backup.ts';
import { backupTask } from './backup.ts';
import type { RunRecovery } from './recovery.ts';
import { recoveryTask } from './recovery.ts';
import type { RunRestore } from './restore.ts';
import { restoreTask } from './restore.ts';
import type { RunBuild } from './build-task.ts';
import { buildTask } from './build-task.ts';
import type { Functions } from '../functions/functions.ts';
import { callTask } from './call.ts';
import type { RunDeps } from './run.ts';
import { runTask } from './run.ts';
import type { Tasks } from './task.ts';
import type { Uploads } from '../imports/uploads.ts';
import { Turns } from './turns.ts';

/** Builds that run at the same time. */
const parallelBuilds = 2;
/** Commands that run at the same time. */
const parallelRuns = 8;

/** Calls by schedules at the same time; each function bounds its own. */
const parallelCalls = 32;

/** Transfers of data at the same time: each reads as fast as the disk of the server allows. */
const parallelTransfers = 1;

/** The work of each type of task. `built` is called when a build ended, with any result. */
export function tasksOf({
  build,
  built,
  run,
  backup,
  restore,
  uploads,
  recovery,
  functions,
}: {
  build: RunBuild;
  built: () => void;
  run: RunDeps;
  backup: RunBackup;
  restore: RunRestore;
  uploads: Pick<Uploads, 'remove'>;
  recovery: RunRecovery;
  functions: Pick<Functions, 'fire'>;
}): Tasks {
  const transfers = new Turns(parallelTransfers);
  return {
    build: buildTask({ build, turns: new Turns(parallelBuilds), built }),
    run: runTask(run, new Turns(parallelRuns)),
    backup: backupTask(backup, transfers),
    restore: restoreTask({ run: restore, uploads }, transfers),
    call: callTask(functions, new Turns(parallelCalls)),
    // what waits for an engine keeps nothing from its turn
    recovery: recoveryTask(recovery, new Turns(parallelRuns)),
  };
}
