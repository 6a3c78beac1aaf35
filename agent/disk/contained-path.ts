import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { RuntimeFailure } from '../runtime/runtime.ts';

/**
 * Returns the real path of `relative` below the folder `root`, which must be a real path itself; `undefined` if it does
 * not exist. Every component is resolved on its own: none may leave the folder, not even to come back.
 * @throws RuntimeFailure `path_outside_repository`
 */
export async function containedPath(root: string, relative: string): Promise<string | undefined> {
  let real = root;
  let at = root;
  for (const part of segments(relative)) {
    at = join(at, part);
    const next = await realpath(at).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR' || error.code === 'ELOOP') return undefined;
      throw error;
    });
    if (next === undefined) return undefined;
    if (!isBelow(root, next)) throw outside(`${relative} leads out of the repository by a symbolic link`);
    real = next;
  }
  return real;
}

/** True if `path` is `root` or below it; both must be absolute and normalised. */
export function isBelow(root: string, path: string): boolean {
  return path === root || path.startsWith(root === '/' ? '/' : `${root}/`);
}

/** Splits a path into its components; empty for the folder itself (``, `.` or `./`). */
function segments(relative: string): string[] {
  const plain = relative.replace(/^(?:\.\/)+/, '').replace(/\/$/, '');
  if (plain === '' || plain === '.') return [];
  const parts = plain.split('/');
  const wrong =
    plain.length > 255 ||
    plain.startsWith('~') ||
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    /[\u0000-\u001f\u007f\\]/.test(plain) ||
    parts.some((part) => part === '' || part === '.' || part === '..');
  if (wrong) throw outside(`${JSON.stringify(relative.slice(0, 300))} is not a path below the repository`);
  return parts;
}

function outside(message: string): RuntimeFailure {
  return new RuntimeFailure('path_outside_repository', `Path outside of the repository: ${message}`, {
    retryable: false,
  });
}
