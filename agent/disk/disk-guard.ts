import { statfs } from 'node:fs/promises';
import type { Clock } from '../../time/clock.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

export interface DiskSpace {
  freeBytes: number;
  totalBytes: number;
  /** Files that may still be made, of the file system with the least share of them; absent: they have no bound. */
  files?: { free: number; total: number };
}

/** Refuses new work that would fill the disk, so that running containers go on. */
export interface DiskGuard {
  /** `what` completes "Cannot …". @throws RuntimeFailure `no_space` if too little space is free */
  check(what: string): Promise<void>;
}

const leastBytes = 512 * 1024 * 1024;
const mostBytes = 5 * 1024 * 1024 * 1024;
const share = 0.05;

/** Bytes that must stay free: 5 % of the disk, at least 512 MiB and at most 5 GiB. */
export function floorBytes(totalBytes: number): number {
  return Math.min(mostBytes, Math.max(leastBytes, totalBytes * share));
}

export function diskGuard(measure: () => Promise<DiskSpace>): DiskGuard {
  return {
    async check(what) {
      const { freeBytes, totalBytes } = await measure();
      const floor = floorBytes(totalBytes);
      if (freeBytes >= floor) return;
      const message = `Cannot ${what} as less than ${Math.round(floor / 1024 / 1024)} MiB of the server's disk are free: free space on it`;
      throw new RuntimeFailure('no_space', message, { retryable: true });
    },
  };
}

const watchMs = 2_000;

/**
 * Aborts with RuntimeFailure `no_space` once too little is free; `what` completes "Cannot …". Disposal ends the watch.
 */
export function watchDisk(disk: DiskGuard, clock: Clock, what: string): { signal: AbortSignal } & Disposable {
  const full = new AbortController();
  const over = new AbortController();
  let cancel = (): void => undefined;
  const look = async (): Promise<void> => {
    try {
      await disk.check(what);
    } catch (error) {
      // If the disk cannot be measured now, the next round measures it again.
      if (error instanceof RuntimeFailure) return full.abort(error);
    }
    if (!over.signal.aborted) cancel = clock.timer(watchMs, () => void look());
  };
  cancel = clock.timer(watchMs, () => void look());
  return {
    signal: full.signal,
    [Symbol.dispose]() {
      over.abort();
      cancel();
    },
  };
}

/**
 * Returns the space of the file system with the least free space among those of the paths. Ignores paths that do not
 * exist, or are in a folder that this process may not enter.
 * @throws Error if none of them can be measured
 */
export async function diskSpace(paths: readonly string[]): Promise<DiskSpace> {
  const spaces = await Promise.all(paths.map((path) => spaceOf(path)));
  const [least] = spaces.filter((it) => it !== undefined).toSorted((a, b) => a.freeBytes - b.freeBytes);
  if (least === undefined)
    throw new Error(`Cannot measure the disk as none of these can be looked at: ${paths.join(', ')}`);
  const [files] = spaces.flatMap((it) => it?.files ?? []).toSorted((a, b) => a.free / a.total - b.free / b.total);
  return { freeBytes: least.freeBytes, totalBytes: least.totalBytes, ...(files !== undefined && { files }) };
}

async function spaceOf(path: string): Promise<DiskSpace | undefined> {
  try {
    const { bavail, blocks, bsize, ffree, files } = await statfs(path);
    const space = { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
    return files === 0 ? space : { ...space, files: { free: ffree, total: files } };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // errors of statfs have a code
    if (code === 'ENOENT' || code === 'EACCES') return undefined;
    throw error;
  }
}
