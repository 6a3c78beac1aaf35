import type { Logger } from 'pino';
import type { BuildProgress } from './build-progress.ts';
import type { RunBuild } from './build-task.ts';
import type { Results } from './results.ts';

/** Wraps a build so that an attempt which the end of the agent interrupted begins again of the commit that it had. */
export function pinnedBuild(
  build: RunBuild,
  { results, log }: { results: Pick<Results, 'pin' | 'pinOf'>; log: Logger },
): RunBuild {
  return (item, progress, signal) => {
    const { id, spec } = item;
    const commit = spec.commit ?? results.pinOf(id, spec.attempt);
    if (commit !== undefined) return build({ ...item, spec: { ...spec, commit } }, progress, signal);
    const noted: BuildProgress = {
      ...progress,
      checkedOut(source) {
        progress.checkedOut(source);
        if (source === undefined) return;
        results.pin(id, spec.attempt, source.commit).catch((error: unknown) => {
          log.warn(
            { err: error, assignment: id },
            'Cannot store the commit of a build: after a restart of the agent it is of the head',
          );
        });
      },
    };
    return build(item, noted, signal);
  };
}
