import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openFiles } from './open-files.ts';

/** Watches of files that the kernel allows each user, and what the user of this agent has of them. */
export interface Inotify {
  maxInstances: number;
  maxWatches: number;
  /** Instances of this user's programs, those in containers included. */
  instances: number;
}

/** @throws Error if the kernel does not tell its bounds; the signal's reason */
export async function readInotify(signal: AbortSignal, proc = '/proc'): Promise<Inotify> {
  const bound = async (name: string): Promise<number> =>
    Number(await readFile(join(proc, 'sys/fs/inotify', name), 'utf8'));
  const [maxInstances, maxWatches] = await Promise.all([bound('max_user_instances'), bound('max_user_watches')]);
  let instances = 0;
  for await (const { target } of openFiles(signal, { proc, user: process.getuid?.() }))
    if (target === 'anon_inode:inotify' || target === 'anon_inode:[inotify]') instances += 1;
  return { maxInstances, maxWatches, instances };
}
