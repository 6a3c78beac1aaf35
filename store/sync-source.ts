import { createHash } from 'node:crypto';
import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';

type Followed = DeepReadonly<Pick<DesiredOf<'sync'>, 'branch' | 'tag_pattern'>>;

/** What a sync follows, in words. */
export function followedBy({ branch, tag_pattern: pattern = '' }: Followed): string {
  return branch === undefined ? `the tags ${pattern}` : `the branch ${branch}`;
}

/** Whether what was seen was seen of what the sync follows now. */
export function isSeenOf(
  seen: Followed & { readonly repository_url: string },
  { repository_url, branch, tag_pattern }: DeepReadonly<DesiredOf<'sync'>>,
): boolean {
  return seen.repository_url === repository_url && seen.branch === branch && seen.tag_pattern === tag_pattern;
}

/** The tag by which a commit was found: it was the newest one last, or it was when the commit was applied. */
export function tagOf({ desired, observed }: ReadonlyResource<'sync'>, commit: string | undefined): string | undefined {
  if (commit === undefined || desired.tag_pattern === undefined) return undefined;
  const { head, runs = [] } = observed ?? {};
  if (head?.commit === commit && isSeenOf(head, desired)) return head.tag;
  const source = sourceOf(desired);
  return runs.find((run) => run.commit === commit && run.source === source)?.tag;
}

/** Names what a sync reads, by a digest: runs of the same one declare the same place of a repository. */
export function sourceOf({
  repository_url,
  branch,
  tag_pattern,
  path,
}: DeepReadonly<Pick<DesiredOf<'sync'>, 'repository_url' | 'branch' | 'tag_pattern' | 'path'>>): string {
  return createHash('sha256')
    .update(JSON.stringify([repository_url, branch ?? { tag_pattern }, path]))
    .digest('hex')
    .slice(0, 32);
}
