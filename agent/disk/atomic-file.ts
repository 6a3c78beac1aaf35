import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Replaces a file as a whole, readable by its owner only unless the mode says otherwise. After a crash at any instant the
 * path has either the old content or the new one.
 */
export async function writeAtomically(path: string, content: Uint8Array | string, mode = 0o600): Promise<void> {
  const temporary = `${path}.new`;
  try {
    await using file = await open(temporary, 'w', 0o600);
    if (mode !== 0o600) await file.chmod(mode); // not bounded by the umask, as the mode of `open` is
    await file.writeFile(content);
    await file.sync();
  } catch (cause) {
    await rm(temporary, { force: true });
    throw new Error(`Cannot write file ${temporary}`, { cause });
  }
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Makes renames and removals within the folder survive a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r');
  await directory.sync();
}
