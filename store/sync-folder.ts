import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes the folder of a file to disk: a new name survives a power cut only then. */
export async function syncFolderOf(path: string): Promise<void> {
  await using folder = await open(dirname(path), 'r');
  await folder.sync();
}
