import { lstat } from 'node:fs/promises';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { containedPath } from '../disk/contained-path.ts';

/**
 * The real path of the folder that is built in. `root` is that of the repository.
 * @throws RuntimeFailure `invalid_source`, `path_outside_repository`
 */
export async function findContext(root: string, path: string): Promise<string> {
  const context = await containedPath(root, path);
  if (context !== undefined && (await lstat(context)).isDirectory()) return context;
  throw new RuntimeFailure('invalid_source', `The repository has no folder ${path} to build in`, { retryable: false });
}
