import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { GitHead, RepositoryFiles } from '../../agent-protocol/messages.ts';
import type { DeclaringFile } from '../../store/declared/commit.ts';
import { defined } from '../../store/defined.ts';
import { grants } from '../../store/grants.ts';
import { isStaying } from '../../store/resource.ts';
import { codesOfAgents } from '../polling/look.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Context } from '../runtime/controller.ts';
import type { Sync } from './states.ts';
import type { KeptCommit } from './texts.ts';

/** An agent answers by then, so that both fit into a run of the controller. In milliseconds. */
const timeouts = { head: 20_000, files: 36_000 } as const;

/** Why a repository cannot be read. `isPassing`: the agent is away or busy, and it says nothing of the repository. */
export class Unreadable extends Error {
  readonly isPassing: boolean;

  constructor(message: string, { isPassing = false }: { isPassing?: boolean } = {}) {
    super(message);
    this.name = 'Unreadable';
    this.isPassing = isPassing;
  }
}

/** The head of a branch as it was seen. */
export interface Head {
  repository_url: string;
  branch: string;
  commit: string;
  /** The head that was seen before and is not in its history any more. */
  replaces?: string;
}

/** The head of the branch, where `requireReader` has passed. @throws Unreadable */
export async function headOf(sync: Sync, agents: AgentCalls, ctx: Context): Promise<Head> {
  const { repository_url, branch, reader_id, git_credential_id } = sync.desired;
  const { head: seen } = sync.observed ?? {};
  const before = seen?.repository_url === repository_url && seen.branch === branch ? seen.commit : undefined;
  const answer = await asked(ctx, () =>
    agents.call(
      ctx.tenant,
      reader_id,
      { method: 'git.head', repository_url, branch, ...defined({ git_credential_id, after: before }) },
      { timeoutMs: timeouts.head, signal: ctx.signal },
    ),
  );
  const { commit, follows } = read(() => answerOf(GitHead, answer));
  return { repository_url, branch, commit, ...(follows === false && defined({ replaces: before })) };
}

/** The files of a commit that declare objects, where `requireReader` has passed. @throws Unreadable */
export async function filesOf(sync: Sync, commit: string, agents: AgentCalls, ctx: Context): Promise<KeptCommit> {
  const { repository_url, branch, reader_id, git_credential_id, path, project_id } = sync.desired;
  const answer = await asked(ctx, () =>
    agents.call(
      ctx.tenant,
      reader_id,
      {
        method: 'repository.read',
        repository_url,
        branch,
        commit,
        paths: [path],
        manifests: true,
        project_id,
        ...(git_credential_id !== undefined && { git_credential_id }),
      },
      { timeoutMs: timeouts.files, signal: ctx.signal },
    ),
  );
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

async function asked(ctx: Context, call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
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
