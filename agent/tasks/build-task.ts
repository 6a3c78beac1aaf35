import type { TaskKnown } from '../../agent-protocol/task-types.ts';
import type { BuildProgress, BuildSource } from './build-progress.ts';
import type { TaskItem, TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

/** A build item of the desired set. */
export type BuildItem = TaskItem<'build'>;

export interface BuildResult extends BuildSource {
  /** Id of the image that was built. */
  image: string;
}

/** Makes the image of an item. @throws RuntimeFailure */
export type RunBuild = (item: BuildItem, progress: BuildProgress, signal: AbortSignal) => Promise<BuildResult>;

/** Builds as tasks. `built` is called when one ended, with any result. */
export function buildTask({
  build,
  turns,
  built,
}: {
  build: RunBuild;
  turns: Turns;
  built: () => void;
}): TaskWork<'build'> {
  return {
    turns,
    ended: built,
    async run(item, { line, learned, at }, signal) {
      const checkedOut = (source: BuildSource | undefined): void =>
        learned(source === undefined ? {} : commitOf(source));
      const result = await build(item, { line, checkedOut, at }, signal);
      return { ...commitOf(result), image_digest: result.image };
    },
  };
}

function commitOf({ commit, commitMessage, dockerfile }: BuildSource): TaskKnown<'build'> {
  return { commit, commit_message: commitMessage, ...(dockerfile !== undefined && { dockerfile }) };
}
