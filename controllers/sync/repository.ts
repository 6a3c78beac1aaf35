import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { GitHead, GitTag, RepositoryFiles } from '../../agent-protocol/messages.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { compareTags } from '../../agent-protocol/tag-pattern.ts';
import type { DeclaringFile } from '../../store/declared/commit.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { defined } from '../../store/defined.ts';
import { grants } from '../../store/grants.ts';
import { isStaying } from '../../store/resource.ts';
import { codesOfAgents } from '../polling/look.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Context } from '../runtime/controller.ts';
import { isSeenOf } from '../../store/sync-source.ts';
import { withoutTag } from './states.ts';
import type { Observed, Replaced, Sync } from './states.ts';
import type { KeptCommit } from './texts.ts';

/** An agent answers by then, so that both fit into a run of the controller. In milliseconds. */
const timeouts = { head: 20_000, files: 36_000 } as const;

/**
 * Why a repository cannot be read. `isPassing`: the agent is away or busy, and it says nothing of the repository. `lack`: what it
 * does not have.
 */
export class Unreadable extends Error {
  readonly isPassing: boolean;
  readonly lack: 'tag' | undefined;

  constructor(message: string, { isPassing = false, lack }: { isPassing?: boolean; lack?: 'tag' } = {}) {
    super(message);
    this.name = 'Unreadable';
    this.isPassing = isPassing;
    this.lack = lack;
  }
}

/** The head of a branch, or the newest tag of a pattern, as it was seen. */
export interface Head {
  seen: NonNullable<Observed['head']>;
  /** What was seen before, if this does not follow it: a head that is not in the history any more, or a tag that was moved or removed. */
  replaces?: Replaced;
}

/** What a sync follows leads to, where `requireReader` has passed. @throws Unreadable */
export function headOf(sync: Sync, agents: AgentCalls, ctx: Context): Promise<Head> {
  const { branch, tag_pattern: pattern = '' } = sync.desired;
  const { head } = sync.observed ?? {};
  const before = head !== undefined && isSeenOf(head, sync.desired) ? head : undefined;
  return branch === undefined
    ? newestTagOf(sync, { pattern, before }, agents, ctx)
    : branchHeadOf(sync, { branch, before: before?.commit }, agents, ctx);
}

async function newestTagOf(
  sync: Sync,
  { pattern, before }: { pattern: string; before: DeepReadonly<Replaced> | undefined },
  agents: AgentCalls,
  ctx: Context,
): Promise<Head> {
  const { repository_url, git_credential_id } = sync.desired;
  const call = { method: 'git.tag', repository_url, tag_pattern: pattern, ...defined({ git_credential_id }) } as const;
  const answer = await asked(sync, call, { agents, ctx, timeoutMs: timeouts.head });
  const { newest, matching } = read(() => answerOf(GitTag, answer));
  if (newest === undefined) throw new Unreadable(withoutTag(repository_url, pattern, matching), { lack: 'tag' });
  const { tag, commit } = newest;
  const isOfOther = before !== undefined && isReplaced({ tag: before.tag ?? '', commit: before.commit }, newest);
  return { seen: { repository_url, tag_pattern: pattern, tag, commit }, ...(isOfOther && { replaces: { ...before } }) };
}

/** A tag leads to another commit than before, or an older one is the newest now. */
function isReplaced(before: { tag: string; commit: string }, now: { tag: string; commit: string }): boolean {
  return before.tag === now.tag ? before.commit !== now.commit : compareTags(now.tag, before.tag) < 0;
}

async function branchHeadOf(
  sync: Sync,
  { branch, before }: { branch: string; before: string | undefined },
  agents: AgentCalls,
  ctx: Context,
): Promise<Head> {
  const { repository_url, git_credential_id } = sync.desired;
  const call = {
    method: 'git.head',
    repository_url,
    branch,
    ...defined({ git_credential_id, after: before }),
  } as const;
  const answer = await asked(sync, call, { agents, ctx, timeoutMs: timeouts.head });
  const { commit, follows } = read(() => answerOf(GitHead, answer));
  const isOfOther = follows === false && before !== undefined;
  return { seen: { repository_url, branch, commit }, ...(isOfOther && { replaces: { commit: before } }) };
}

/** The files of a commit that declare objects, where `requireReader` has passed. @throws Unreadable */
export async function filesOf(sync: Sync, commit: string, agents: AgentCalls, ctx: Context): Promise<KeptCommit> {
  const { repository_url, branch, git_credential_id, path, project_id } = sync.desired;
  const call = {
    method: 'repository.read',
    repository_url,
    branch: branch ?? commit,
    commit,
    paths: [path],
    manifests: true,
    project_id,
    ...defined({ git_credential_id }),
  } satisfies CallParams;
  const answer = await asked(sync, call, { agents, ctx, timeoutMs: timeouts.files });
  const { commit_message: message, files } = read(() => answerOf(RepositoryFiles, answer));
  if (files.length === 0)
    throw new Unreadable(`${path} has no YAML or JSON file: name a folder that declares objects, or a file`);
  return { commit, message: message.split('\n')[0] ?? '', files: files.map((it) => textOf(it, path)) };
}

/** @throws Unreadable */
function textOf(file: RepositoryFiles['files'][number], asked: string): DeclaringFile {
  const { path = asked } = file;
  if ('content' in file) return { path, content: Buffer.from(file.content, 'base64').toString('utf8') };
  switch (file.lack) {
    case 'missing':
      throw new Unreadable(`${path} is not there: check path, which is one in the repository`);
    case 'not_file':
      throw new Unreadable(`${path} is no regular file`);
    case 'too_large':
      throw new Unreadable(`${path} is too large: files have at most 256 KiB, and all together 512 KiB`);
  }
}

/** @throws Unreadable unless the project may use the server and the credential */
export function requireReader({ desired }: Sync, { view }: Context): void {
  const server = view.get('server', desired.reader_id);
  if (!isStaying(server))
    throw new Unreadable('The server whose agent reads the repository was deleted: name another one (server_id)');
  const { git_credential_id: id } = desired;
  const credential = id === undefined ? undefined : view.get('git_credential', id);
  if (id !== undefined && !isStaying(credential))
    throw new Unreadable('Its git credential was deleted: name another one (git_credential_id)');
  for (const [word, it] of [
    ['server', server],
    ['git credential', credential],
  ] as const)
    if (it !== undefined && !grants(it, desired.project_id))
      throw new Unreadable(
        `The ${word} ${it.desired.name} is not for this project any more: ask an admin to add the project to its allowed_projects`,
      );
}

/** What the agent of the server that reads the repository answers. @throws Unreadable */
async function asked(
  { desired: { reader_id } }: Sync,
  call: CallParams,
  { agents, ctx, timeoutMs }: { agents: AgentCalls; ctx: Context; timeoutMs: number },
): Promise<unknown> {
  try {
    return await agents.call(ctx.tenant, reader_id, call, { timeoutMs, signal: ctx.signal });
  } catch (error) {
    if (ctx.signal.aborted || !(error instanceof CallError)) throw error;
    if (error.code === 'timeout')
      throw new Unreadable(
        'The agent did not answer in time: the git host is slow, or the agent reads other repositories',
        { isPassing: true },
      );
    throw new Unreadable(error.message, { isPassing: codesOfAgents.has(error.code) });
  }
}

function read<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof CallError) throw new Unreadable(error.message);
    throw error;
  }
}
