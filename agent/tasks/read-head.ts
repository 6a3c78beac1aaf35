import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import type { GitHead } from '../../agent-protocol/messages.ts';
import type { Git } from './git.ts';
import type { WorkFolder } from './work-folder.ts';

/**
 * Returns the commit at the head of a branch and, if `since` is given and both commits can be read, the files that
 * differ. With `after`, it says whether the head follows that commit, if that is known soon: the head is answered in any case.
 * @throws RuntimeFailure as `Git.head`
 */
export type ReadHead = (
  query: {
    url: string;
    branch: string;
    since: string | undefined;
    after?: string | undefined;
    credential?: GitCredential | undefined;
  },
  signal: AbortSignal,
) => Promise<GitHead>;

/** Returns the newest tag of a pattern. @throws RuntimeFailure as `Git.tag` */
export type FindTag = Git['tag'];

/** The history of a head is read for so long after it was asked for: its caller waits a little longer. In milliseconds. */
const historyMs = 18_000;

export function headReader({ git, folder }: { git: Git; folder: WorkFolder }): ReadHead {
  /** `undefined`: it is not known. The head is answered whatever stands in the way of its history. */
  const followsOf = async (
    source: Parameters<Git['follows']>[0],
    after: string,
    { signal, late }: { signal: AbortSignal; late: AbortSignal },
  ): Promise<boolean | undefined> => {
    try {
      await using work = await folder.make();
      return await git.follows(source, after, work.path, AbortSignal.any([signal, late]));
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  };
  return async ({ url, branch, since, after, credential }, signal) => {
    const late = AbortSignal.timeout(historyMs);
    const commit = await git.head({ url, branch, credential }, signal);
    if (after !== undefined) {
      const source = { url, commit, credential };
      const follows = after === commit ? true : await followsOf(source, after, { signal, late });
      return { commit, ...(follows !== undefined && { follows }) };
    }
    if (since === undefined) return { commit };
    await using work = await folder.make();
    const changes = await git.changes({ url, commit, credential }, since, work.path, signal);
    if (changes === undefined) return { commit };
    return { commit, changed_files: changes.files, ...(changes.truncated && { truncated: true }) };
  };
}
