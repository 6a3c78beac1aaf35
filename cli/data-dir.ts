import { access, constants, mkdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

/** The store of a control plane that is given no other one. */
export function embeddedStore(dataDir: string): string {
  return `sqlite:${join(dataDir, 'store.db')}`;
}

/**
 * Makes the directory in which a program keeps its state, and its parents, accessible for their owner only.
 *
 * @throws Error with the directory and why it cannot be used.
 */
export async function ensureDataDir(path: string): Promise<void> {
  try {
    await ensure(resolve(path));
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Error(`Cannot use ${path} as the data directory: ${reasonOf(error)}. Choose another with --data`, {
      cause: error,
    });
  }
}

/**
 * Makes one directory at a time: the recursive form of `mkdir` never returns on a file system that refuses every new
 * entry.
 */
async function ensure(path: string): Promise<void> {
  const found = await stat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found?.isDirectory() === true) return;
  if (found !== undefined) throw new Error(`${path} is a file`);
  const above = dirname(path);
  if (above !== path) await ensure(above);
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error; // another process made it meanwhile
  });
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function reasonOf(error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOENT':
      return 'its file system makes no directory there';
    case 'ENOTDIR':
      return 'a part of its path is a file';
    case 'EACCES':
    case 'EPERM':
      return 'this user may not write there';
    case 'EROFS':
      return 'its file system is read-only';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}
