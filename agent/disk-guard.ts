import { statfs } from 'node:fs/promises';
import { RuntimeFailure } from './runtime/runtime.ts';

export interface DiskSpace {
  freeBytes: number;
  totalBytes: number;
}

/** Keeps what is not yet on the disk from filling it, so that what runs goes on running. */
export interface DiskGuard {
  /** @throws RuntimeFailure `no_space`; `what` completes "Cannot …" */
  check(what: string): Promise<void>;
}

const leastBytes = 512 * 1024 * 1024;
const mostBytes = 5 * 1024 * 1024 * 1024;
const share = 0.05;

/** How much has to stay free: 5 % of the disk, at least 512 MiB and at most 5 GiB. */
export function floorBytes(totalBytes: number): number {
  return Math.min(mostBytes, Math.max(leastBytes, totalBytes * share));
}

export function diskGuard(measure: () => Promise<DiskSpace>): DiskGuard {
  return {
    async check(what) {
      const { freeBytes, totalBytes } = await measure();
      const floor = floorBytes(totalBytes);
      if (freeBytes >= floor) return;
      const message = `Cannot ${what} as less than ${Math.round(floor / 1024 / 1024)} MiB of the server's disk are free`;
      throw new RuntimeFailure('no_space', message, { retryable: true });
    },
  };
}

/** Space of the file system that has the least left of those that hold these paths; what does not exist is left out. */
export async function diskSpace(paths: readonly string[]): Promise<DiskSpace> {
  const spaces = await Promise.all(paths.map((path) => spaceOf(path)));
  const [least] = spaces.filter((it) => it !== undefined).toSorted((a, b) => a.freeBytes - b.freeBytes);
  if (least === undefined) throw new Error(`Cannot measure the disk as none of these exists: ${paths.join(', ')}`);
  return least;
}

async function spaceOf(path: string): Promise<DiskSpace | undefined> {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // what statfs rejects with has a code
    throw error;
  }
}
