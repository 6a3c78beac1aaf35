import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';

/** Bytes of a block, in which the kernel counts the space of a file. */
const blockBytes = 512;
/** Most folders that wait to be walked: beyond it, the walk fails. */
const maxWaiting = 100_000;

/**
 * Returns the bytes that a folder takes on its disk: with holes in files left out, and each file once however many
 * links it has. Follows no link and leaves out other disks. What changes meanwhile makes the figure inexact only.
 * @throws Error if the folder cannot be read, or has too many folders; the signal's reason
 */
export async function folderUsage(path: string, signal: AbortSignal): Promise<number> {
  const { dev } = await lstat(path);
  const waiting = [path];
  let total = 0;
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const entries = folder === path ? await opendir(folder) : await opendir(folder).catch(unlessGone);
    if (entries === undefined) continue;
    for await (const { name } of entries) {
      signal.throwIfAborted();
      const found = await lstat(join(folder, name)).catch(unlessGone);
      if (found === undefined || found.dev !== dev) continue;
      const isFolder = found.isDirectory();
      // The other links count their parts.
      total += (found.blocks * blockBytes) / (isFolder ? 1 : found.nlink);
      if (isFolder) waiting.push(join(folder, name));
      if (waiting.length > maxWaiting) throw new RangeError(`More than ${maxWaiting} folders in ${path}`);
    }
  }
  return Math.round(total);
}

/** Returns `undefined` for a file that was removed meanwhile. @throws any other error */
function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
}
