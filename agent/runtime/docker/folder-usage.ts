import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';

/** Bytes of a block, in which the kernel counts the space of a file. */
const blockBytes = 512;
/** Most folders that wait to be walked: beyond it, the walk fails. */
const maxWaiting = 100_000;

/** What a folder holds, as one walk of it shows. */
export interface FolderContent {
  /** See {@link folderUsage}. */
  bytes: number;
  /** Another text once a file or a folder in it was made, changed or removed. */
  mark: string;
}

/**
 * Returns the bytes that a folder takes on its disk: with holes in files left out, and each file once however many
 * links it has. Follows no link and leaves out other disks. What changes meanwhile makes the figure inexact only.
 * @throws Error if the folder cannot be read, or has too many folders; the signal's reason
 */
export async function folderUsage(path: string, signal: AbortSignal): Promise<number> {
  return (await folderContent(path, signal)).bytes;
}

/** Like {@link folderUsage}, with what shows a change. */
export async function folderContent(path: string, signal: AbortSignal): Promise<FolderContent> {
  const { dev, ctimeMs } = await lstat(path);
  const waiting = [path];
  let [total, count, size, newest] = [0, 0, 0, ctimeMs];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const entries = folder === path ? await opendir(folder) : await opendir(folder).catch(unlessGone);
    if (entries === undefined) continue;
    for await (const { name } of entries) {
      signal.throwIfAborted();
      const found = await lstat(join(folder, name)).catch(unlessGone);
      if (found === undefined || found.dev !== dev) continue;
      const isFolder = found.isDirectory();
      count++;
      size += found.size;
      // the kernel sets it at each change of a file, and of a folder whenever a name in it comes or goes
      newest = Math.max(newest, found.ctimeMs);
      // The other links count their parts.
      total += (found.blocks * blockBytes) / (isFolder ? 1 : found.nlink);
      if (isFolder) waiting.push(join(folder, name));
      if (waiting.length > maxWaiting) throw new RangeError(`More than ${maxWaiting} folders in ${path}`);
    }
  }
  return { bytes: Math.round(total), mark: `${count} ${size} ${newest}` };
}

/** Returns `undefined` for a file that was removed meanwhile. @throws any other error */
function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
}
