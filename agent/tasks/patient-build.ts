import type { RunBuild } from './build-task.ts';
import type { Clock } from '../../time/clock.ts';
import type { DiskGuard } from '../disk/disk-guard.ts';
import { watchDisk } from '../disk/disk-guard.ts';
import type { EngineMonitor } from '../engine/engine-monitor.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** A build fails after the engine, although it answers again, has lost it this number of times. */
const mostLosses = 3;

/**
 * Wraps a build so that it begins once the engine answers and enough disk is free, ends when the disk fills up, and
 * begins again when the engine stopped answering meanwhile. The deadline of the build bounds all of that.
 */
export function patientBuild(
  build: RunBuild,
  it: { disk: DiskGuard; engine: EngineMonitor; clock: Clock; relist: () => Promise<void> },
): RunBuild {
  const { disk, engine, clock, relist } = it;
  return async (item, progress, signal) => {
    const { line, at } = progress;
    for (let losses = 0; ;) {
      if (engine.isSilent) {
        at({ step: 'waiting_for_engine' });
        line('Waits for the container engine of the server, which does not answer');
      }
      await engine.answers(signal);
      await disk.check(`build image ${item.spec.image}`);
      using watch = watchDisk(disk, clock, `go on building image ${item.spec.image}`);
      try {
        return await build(item, progress, AbortSignal.any([signal, watch.signal]));
      } catch (error) {
        if (!signal.aborted) watch.signal.throwIfAborted();
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
