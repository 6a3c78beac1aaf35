import { answerOf } from '../../agent-protocol/answer.ts';
import { GitHead } from '../../agent-protocol/messages.ts';
import { OperationFailure, type Run } from './run.ts';
import { isWatched } from './watch-paths.ts';

/**
 * Compares the head of the branch with the commit that serves: whether it differs, in which files, and whether one of
 * them is watched. If the files are not all known, they count as watched.
 */
export const sync: Run = async (it, { agents, ctx, signal, timeoutMs }) => {
  const app =
    it.desired.application_id === undefined ? undefined : ctx.view.get('application', it.desired.application_id);
  if (app === undefined) throw new OperationFailure('not_found', 'Its application was deleted');
  const { source } = app.desired;
  if (source.type !== 'git')
    throw new OperationFailure('invalid_source', `Only a git source can be compared: this one is ${source.type}`);
  const current = app.observed?.current_commit ?? null;
  const answer = await agents.call(
    ctx.tenant,
    app.desired.server_id,
    {
      method: 'git.head',
      repository_url: source.repository_url,
      branch: source.branch,
      ...(current !== null && { since: current }),
    },
    { timeoutMs, signal },
  );
  const { commit: latest, changed_files, truncated = false } = answerOf(GitHead, answer);
  const up_to_date = current === latest;
  const files = up_to_date ? [] : (changed_files ?? []);
  const known = up_to_date || (changed_files !== undefined && !truncated);
  return {
    up_to_date,
    current_commit: current,
    latest_commit: latest,
    branch: source.branch,
    changed_files: files,
    changed_files_known: known,
    matched: !up_to_date && (!known || isWatched(app.desired.watch_paths ?? '', files).watched),
  };
};
