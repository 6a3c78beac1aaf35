import type { RunBuild } from './build-task.ts';
import { buildTask } from './build-task.ts';
import type { Tasks } from './task.ts';
import { Turns } from './turns.ts';

/** Builds that run at the same time. */
const parallelBuilds = 2;

/** The work of each type of task. `built` is called when a build ended, with any result. */
export function tasksOf({ build, built }: { build: RunBuild; built: () => void }): Tasks {
  return { build: buildTask({ build, turns: new Turns(parallelBuilds), built }) };
}
