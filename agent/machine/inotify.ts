import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Watches of files that the kernel allows each user, and what the user of this agent has of them. */
export interface Inotify {
  maxInstances: number;
  maxWatches: number;
  /** Instances of this user's programs, those in containers included. */
  instances: number;
}

/** Most open files that are looked at: beyond it, what was counted so far is the answer. */
const mostFiles = 50_000;

/** @throws Error if the kernel does not tell its bounds; the signal's reason */
export async function readInotify(signal: AbortSignal, proc = '/proc'): Promise<Inotify> {
  const bound = async (name: string): Promise<number> =>
    Number(await readFile(join(proc, 'sys/fs/inotify', name), 'utf8'));
  const [maxInstances, maxWatches] = await Promise.all([bound('max_user_instances'), bound('max_user_watches')]);
  return { maxInstances, maxWatches, instances: await countInstances(proc, signal) };
}

async function countInstances(proc: string, signal: AbortSignal): Promise<number> {
  const user = process.getuid?.();
  let count = 0;
  let files = 0;
  for (const pid of await readdir(proc)) {
    if (!/^\d+$/.test(pid)) continue;
    signal.throwIfAborted();
    const folder = join(proc, pid, 'fd');
    // A program may have ended meanwhile, or belong to another user.
    if ((await stat(join(proc, pid)).catch(() => undefined))?.uid !== user) continue;
    for (const file of await readdir(folder).catch(() => [])) {
      files += 1;
      if (files > mostFiles) return count;
      const target = await readlink(join(folder, file)).catch(() => '');
      if (target === 'anon_inode:inotify' || target === 'anon_inode:[inotify]') count += 1;
    }
  }
  return count;
}
