import { createHash } from 'node:crypto';
import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';

/** Names what a sync reads, by a digest: runs of the same one declare the same place of a repository. */
export function sourceOf({
  repository_url,
  branch,
  path,
}: DeepReadonly<Pick<DesiredOf<'sync'>, 'repository_url' | 'branch' | 'path'>>): string {
  return createHash('sha256')
    .update(JSON.stringify([repository_url, branch, path]))
    .digest('hex')
    .slice(0, 32);
}
