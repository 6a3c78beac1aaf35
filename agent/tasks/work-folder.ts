import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Folder for the files of running tasks. */
export interface WorkFolder {
  /** Makes an empty folder, which its disposal removes. */
  make(): Promise<{ path: string } & AsyncDisposable>;
}

/** Opens the folder and empties it, as a killed agent may have left files there. */
export async function openWorkFolder(path: string): Promise<WorkFolder> {
  await rm(path, { recursive: true, force: true });
  await mkdir(path, { recursive: true, mode: 0o700 });
  return {
    async make() {
      const made = await mkdtemp(join(path, 'task-'));
      return {
        path: made,
        [Symbol.asyncDispose]: () => rm(made, { recursive: true, force: true, maxRetries: 3 }),
      };
    },
  };
}
