import type { BuildRoom } from './build-room.ts';
import type { BuildProgress } from './build-progress.ts';
import type { RunBuild } from './build-task.ts';
import type { Clock } from '../../time/clock.ts';
import type { DiskGuard } from '../disk/disk-guard.ts';
import { watchDisk } from '../disk/disk-guard.ts';
import type { EngineMonitor } from '../engine/engine-monitor.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** A build fails after the engine, although it answers again, has lost it this number of times. */
const mostLosses = 3;

/**
 * Wraps a build so that it begins once the engine answers and enough disk is free, ends when the disk fills up, by itself or by all, and
 * begins again when the engine stopped answering meanwhile, of the commit that was checked out before. The deadline of the
 * build bounds all of that.
 */
export function patientBuild(
  build: RunBuild,
  it: {
    disk: DiskGuard;
    room: Pick<BuildRoom, 'watch'>;
    engine: EngineMonitor;
    clock: Clock;
    relist: () => Promise<void>;
  },
): RunBuild {
  const { disk, room, engine, clock, relist } = it;
  return async (item, progress, signal) => {
    const { line, at } = progress;
    let { commit } = item.spec;
    const noted: BuildProgress = {
      ...progress,
      checkedOut(source) {
        commit = source?.commit ?? commit;
        progress.checkedOut(source);
      },
    };
    for (let losses = 0; ;) {
      if (engine.isSilent) {
        at({ step: 'waiting_for_engine' });
        line('Waits for the container engine of the server, which does not answer');
      }
      await engine.answers(signal);
      await disk.check(`build image ${item.spec.image}`);
      using watch = watchDisk(disk, clock, `go on building image ${item.spec.image}`);
      using share = room.watch(item);
      try {
        const pinned = commit === undefined ? item : { ...item, spec: { ...item.spec, commit } };
        return await build(pinned, noted, AbortSignal.any([signal, watch.signal, share.signal]));
      } catch (error) {
        if (!signal.aborted) AbortSignal.any([watch.signal, share.signal]).throwIfAborted();
        if (signal.aborted || !isLoss(error)) throw error;
        await relist().catch(() => undefined); // the list only shows whether the engine answers
        if (!engine.isSilent && ++losses === mostLosses) throw error;
        line('The container engine went away: the build begins again');
        progress.checkedOut(undefined);
      }
    }
  };
}

function isLoss(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'runtime_unavailable';
}
