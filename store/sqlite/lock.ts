import { DatabaseSync } from 'node:sqlite';
import { isBusy } from './failure.ts';

/** Held until it is released or the process ends, however it ends. */
export interface FileLock {
  release(): void;
}

/**
 * Takes the lock of a side file that is a SQLite database for its locking alone: an operating system lock, which no
 * crash leaves behind, and which also excludes a second holder inside this process.
 *
 * @returns `undefined` if another holder has it.
 */
export function tryLock(path: string): FileLock | undefined {
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (isBusy(error)) return undefined;
    throw error;
  }
  return { release: () => db.close() };
}
