import { mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
/** What is left for others; a container's own file system in memory is often smaller than one write-ahead log. */
const minFreeBytes = 2 * 1024 ** 3;

/**
 * A new folder that is in memory where the machine has room for that, else on its disk: a killed process loses nothing
 * of it, and no other program's use of the disk delays who syncs it.
 */
export async function memoryFolder(prefix: string): Promise<string> {
  const room = await statfs(memory).catch(() => undefined);
  const isRoomy = room !== undefined && room.bavail * room.bsize >= minFreeBytes;
  return mkdtemp(join(isRoomy ? memory : tmpdir(), prefix));
}
