import { constants } from 'node:fs';
import { lstat, open, readdir } from 'node:fs/promises';
import { maxDeclarationBytes, type RepositoryFiles } from '../dockerfiles/repository-files.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { containedPath } from '../disk/contained-path.ts';

const maxNames = 10_000;

/** Reads the files of a folder, which must be a real path: bounded, and nothing outside of it. */
export function repositoryReader(folder: string): RepositoryFiles {
  const regular = async (path: string): Promise<{ path: string; size: number } | undefined> => {
    const found = await containedPath(folder, path);
    if (found === undefined) return undefined;
    const it = await lstat(found);
    return it.isFile() ? { path: found, size: it.size } : undefined;
  };
  const firstOf = async (path: string): Promise<string> => {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(maxDeclarationBytes), position: 0 });
    return buffer.toString('utf8', 0, bytesRead).replace(/^\uFEFF/, ''); // a byte order mark declares nothing
  };
  return {
    async text(path) {
      const found = await regular(path);
      if (found === undefined) return undefined;
      if (found.size <= maxDeclarationBytes) return firstOf(found.path);
      const message = `${path} has ${found.size} bytes: to generate a Dockerfile at most ${maxDeclarationBytes} are read`;
      throw new RuntimeFailure('invalid_source', message, { retryable: false });
    },
    async head(path) {
      const found = await regular(path);
      return found === undefined ? undefined : firstOf(found.path);
    },
    has: async (path) => (await regular(path)) !== undefined,
    async names(path) {
      const found = path === '.' ? folder : await containedPath(folder, path);
      if (found === undefined || !(await lstat(found)).isDirectory()) return [];
      const entries = (await readdir(found, { withFileTypes: true })).slice(0, maxNames);
      return entries.map((it) => (it.isDirectory() ? `${it.name}/` : it.name)).toSorted();
    },
  };
}
