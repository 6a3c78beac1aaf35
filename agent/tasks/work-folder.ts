import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Where tasks keep their files while they run. */
export interface WorkFolder {
  /** An empty folder, which is removed when it is disposed. */
  make(): Promise<{ path: string } & AsyncDisposable>;
}

/** Empties the folder first: an agent that was killed left its files there. */
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
