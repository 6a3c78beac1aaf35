import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './until.ts';

const exec = promisify(execFile);
const chunk = Buffer.alloc(1024 * 1024);

/** A file system of its own that is soon full: ext4 in a file. Needs root. */
export interface SmallDisk extends AsyncDisposable {
  path: string;
  /** Takes all that is left. */
  fill(): Promise<void>;
  /** Gives back what {@link fill} took. */
  free(): Promise<void>;
}

export async function smallDisk(bytes: number): Promise<SmallDisk> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-disk-'));
  const [image, path] = [join(folder, 'image'), join(folder, 'disk')];
  await writeFile(image, '');
  await truncate(image, bytes);
  await exec('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  await mkdir(path);
  await exec('mount', ['-o', 'loop', image, path]);
  const filler = join(path, 'filler');
  return {
    path,
    async fill() {
      await using file = await open(filler, 'w');
      try {
        for (;;) await file.write(chunk);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    },
    free: () => rm(filler, { force: true }),
    async [Symbol.asyncDispose]() {
      // Whoever was just killed may still hold a file.
      await until('the disk is given up', async () => {
        await exec('umount', [path]);
        return true;
      });
      await rm(folder, { recursive: true });
    },
  };
}
