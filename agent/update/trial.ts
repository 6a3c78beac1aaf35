import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfThere } from '../disk/read-if-there.ts';

/**
 * Ends the trial of the version that runs: it has connected, so that its supervisor keeps it. `home`: the folder of the
 * installation, where `supervise` says what the files in it mean. @throws Error if the file cannot be removed
 */
export async function endTrial(home: string, version: string): Promise<void> {
  const path = join(home, 'trial');
  if ((await readIfThere(path))?.trim() === version) await rm(path, { force: true });
}
