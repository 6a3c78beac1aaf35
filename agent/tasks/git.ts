import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import { changedFilesLimits } from '../../agent-protocol/messages.ts';
import type { GitTag } from '../../agent-protocol/messages.ts';
import { newestOf, tagLimits } from '../../agent-protocol/tag-pattern.ts';
import type { ProcessResult } from '../machine/process.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { checkoutAgain, checkoutCommit, type Budget, type Wanted } from './git-checkout.ts';
import type { CloneCache, CloneOf } from './git-clones.ts';
import { branchNotFound, invalid, reason, unreachable, unreadable } from './git-failure.ts';
import { gitProgram, maxTextBytes } from './git-program.ts';
import { gitRemote, type RemoteOptions } from './git-remote.ts';
import { watchSize } from './git-size.ts';
import {
  gitBranch,
  gitTagPattern,
  gitUrl,
  isCommit,
  type GitBranch,
  type GitProtocol,
  type ParsedGitUrl,
} from './git-source.ts';
import { lfsPointers } from './lfs-pointers.ts';
import { checkoutSubmodules, submoduleLimits } from './git-submodules.ts';

export interface GitOptions extends RemoteOptions {
  clock: Clock;
  /** Protocols that are allowed in addition to https and ssh. */
  protocols: readonly Exclude<GitProtocol, 'https' | 'ssh'>[];
  /** Most files of one repository at one commit; 200 000 by default. */
  maxFiles?: number;
  /** Most bytes that are fetched for a checkout; 2 GiB by default. */
  maxPackBytes?: number;
  /** Most bytes of the files of a checkout; by default twice as many as are fetched. */
  maxTreeBytes?: number;
  /** Where clones of projects are kept; absent: everything is fetched anew. */
  clones?: CloneCache;
  /** Most memory of each process of git; by default 2 GiB, or half of the machine's memory if that is less. */
  maxMemoryBytes?: number;
  /** Name of the agent in the environment of its programs, by which the next agent finds those of a killed one. */
  owner?: string;
}

/** A repository, and what it is read with if it is not public. */
export interface Readable {
  url: string;
  credential?: GitCredential | undefined;
}

export interface CheckoutSource extends Readable {
  branch: string;
  /** Full id; absent: what `head` returns for the branch. */
  commit?: string | undefined;
  submodules?: boolean | undefined;
  /** The project that may use what is fetched once more; absent: it is used once. */
  project?: string | undefined;
  withinMs: number;
}

export interface Checkout {
  /** Full id of the commit. */
  commit: string;
  /** First line of its message, at most 200 characters; control and invisible characters are replaced. */
  message: string;
  committedAt: Date;
  /** What the repository names and the files do not have. */
  leftOut?: {
    /** Paths of submodules that are not fetched. */
    submodules: readonly string[];
    /** Paths of files that are pointers of Git LFS to what they stand for. */
    pointers: readonly string[];
  };
}

/** Reads repositories by the `git` program. Every repository may be hostile: nothing of it is run or trusted. */
export interface Git {
  /**
   * Returns the commit at the head of a branch, or else of a tag; the id of a commit is itself.
   * @throws RuntimeFailure `invalid_source`, `branch_not_found`, `repository_unreachable`
   */
  head(source: Readable & { branch: string }, signal: AbortSignal): Promise<string>;
  /**
   * Returns the newest tag of a pattern by its version, with the commit that it leads to, and how many tags are of the pattern.
   * @throws RuntimeFailure `invalid_source`, `repository_unreachable`
   */
  tag(source: Readable & { pattern: string }, signal: AbortSignal): Promise<GitTag>;
  /**
   * Writes the files of a commit, by default of what `head` returns for the branch, to `folder/tree`, without history and
   * hooks, and without submodules unless `submodules` is true. The fetch must end within `withinMs` milliseconds.
   * @throws RuntimeFailure as `head`, and `no_space`
   */
  checkout(source: CheckoutSource, folder: string, signal: AbortSignal): Promise<Checkout>;
  /**
   * Returns the files that differ between two commits, by their trees, which are fetched to `folder/git`. Returns
   * `undefined` if that cannot be known: a commit is invalid or lost, the host sends no commit by its id, or the trees
   * are too large or take too long.
   * @throws RuntimeFailure `invalid_source`
   */
  changes(
    source: Readable & { commit: string },
    since: string,
    folder: string,
    signal: AbortSignal,
  ): Promise<Changes | undefined>;
  /**
   * Returns whether a commit has `earlier` in its history, which is fetched to `folder/git` without trees and files. Returns
   * `undefined` if that cannot be known, as the history is cut off or too large, or takes too long.
   * @throws RuntimeFailure `invalid_source`
   */
  follows(
    source: Readable & { commit: string },
    earlier: string,
    folder: string,
    signal: AbortSignal,
  ): Promise<boolean | undefined>;
}

export interface Changes {
  /** Paths from the root of the repository; control and invisible characters are replaced. */
  files: string[];
  /** More files have changed than are listed. */
  truncated: boolean;
}

const headMs = 30_000;
/** Most bytes of a list of tags: some 30 000, each with what it leads to. */
const maxTagBytes = 4 * 1024 * 1024;
const defaultMaxPackBytes = 2 * 1024 ** 3;
/** Most bytes of a fetched history: of more than 50 000 commits, if the host sends them without trees. */
const maxHistoryBytes = 16 * 1024 * 1024;

/** What an examination may fetch, and its whole time: its caller waits for the head alone. */
interface ExaminationBounds {
  ms: number;
  maxBytes: number;
  /** What is fetched. */
  what: string;
}
/** If the host ignores the filter and sends files too, only a small repository fits. */
const ofTrees: ExaminationBounds = { ms: 10_000, maxBytes: 64 * 1024 * 1024, what: 'trees' };
const ofHistories: ExaminationBounds = { ms: 5_000, maxBytes: maxHistoryBytes, what: 'history' };

/** Runs git on what was fetched, and resolves with its output. @throws RuntimeFailure */
type OwnGit = (args: readonly string[], maxOutputBytes: number) => Promise<string>;
const defaultMaxFiles = 200_000;
const maxMessageChars = 200;
/** Most bytes of a list of all files: enough for `defaultMaxFiles`. */
const maxListBytes = 64 * 1024 * 1024;

export function git(options: GitOptions): Git {
  const allowed = new Set<GitProtocol>(['https', 'ssh', ...options.protocols]);

  const call = gitProgram({ ...options, allowed });

  const remote = gitRemote(options, call);
  const tools = { clock: options.clock, call, remote };

  /**
   * Fetches commits to `folder/git`, and looks at them. Resolves with `undefined` where that is not possible: the control
   * plane waits for the head alone. @throws the reason of the signal
   */
  const fetched = async <T>(
    it: {
      source: ParsedGitUrl;
      credential: GitCredential | undefined;
      /** Options of the fetch. */
      wanted: readonly string[];
      commits: readonly string[];
      folder: string;
    } & ExaminationBounds,
    signal: AbortSignal,
    look: (own: OwnGit) => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    const { url } = it.source;
    const store = join(it.folder, 'git');
    const late = new AbortController();
    const stop = options.clock.timer(it.ms, () => late.abort(unreachable(`Repository ${url} takes too long`)));
    const tooLarge = (): RuntimeFailure =>
      invalid(`The ${it.what} of repository ${url} cannot be looked at: too large`);
    using watch = watchSize(options.clock, join(store, 'objects', 'pack'), { maxBytes: it.maxBytes }, tooLarge);
    const enough = AbortSignal.any([signal, late.signal, watch.signal]);
    // Without this, git would silently fetch missing objects, from an address that was not checked.
    const offline = new Set<GitProtocol>();
    const own: OwnGit = (args, maxOutputBytes) => {
      const how = { url, ms: it.ms, maxOutputBytes, cwd: it.folder, protocols: offline };
      return succeeded(call([`--git-dir=${store}`, ...args], how, enough));
    };
    const plain = ['--no-tags', '--no-recurse-submodules', '--no-write-fetch-head'];
    const head = [`--git-dir=${store}`, 'fetch', '--quiet', ...it.wanted, ...plain, '--'];
    const fetch = (at: string): string[] => [...head, at, ...it.commits];
    try {
      await own(['init', '--quiet', '--bare', '--template='], maxTextBytes);
      await succeeded(remote(it.source, it.credential, fetch, { ms: it.ms }, enough));
      return await look(own);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RuntimeFailure) return undefined;
      throw error;
    } finally {
      stop();
    }
  };

  /** Why a name leads to no commit. */
  const notFound = async (
    source: ParsedGitUrl,
    credential: GitCredential | undefined,
    branch: string,
    signal: AbortSignal,
  ): Promise<RuntimeFailure> => {
    const told = async (options: readonly string[], names: readonly string[] = []): Promise<string | undefined> => {
      const args = (at: string): string[] => ['ls-remote', ...options, '--', at, ...names];
      const { code, stdout } = await remote(source, credential, args, { ms: headMs }, signal);
      return code === 0 ? stdout : undefined;
    };
    const all = await told(['--heads', '--tags']).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof RuntimeFailure) return undefined; // it has more than are read
      throw error;
    });
    if (all === '') return branchNotFound(source.url, branch, { empty: true });
    const [, instead] = /^ref: refs\/heads\/(\S{1,200})\tHEAD$/m.exec((await told(['--symref'], ['HEAD'])) ?? '') ?? [];
    return branchNotFound(source.url, branch, { instead: instead && shown(instead) });
  };

  const head: Git['head'] = async ({ url, branch: name, credential }, signal) => {
    const source = gitUrl(url, allowed);
    const branch = gitBranch(name);
    if (isCommit(branch)) return branch;
    // what a tag with a message leads to stands in a line of its own
    const refs = [`refs/heads/${branch}`, `refs/tags/${branch}^{}`, `refs/tags/${branch}`];
    const args = (at: string): string[] => ['ls-remote', '--heads', '--tags', '--', at, ...refs];
    const answer = await remote(source, credential, args, { ms: headMs }, signal);
    if (answer.code !== 0) throw unreadable(url, answer.stderr, credential !== undefined);
    const lines = answer.stdout.split('\n').map((line) => line.split('\t'));
    const found = refs.flatMap((ref) => lines.find(([, named]) => named === ref) ?? []);
    const [commit] = found;
    if (commit === undefined || !isCommit(commit)) throw await notFound(source, credential, branch, signal);
    return commit;
  };

  const tag: Git['tag'] = async ({ url, pattern, credential }, signal) => {
    const source = gitUrl(url, allowed);
    gitTagPattern(pattern);
    // git's own `*` also stands for slashes: these are the tags of the pattern, and some more
    const refs = [`refs/tags/${pattern}`, `refs/tags/${pattern}^{}`];
    const args = (at: string): string[] => ['ls-remote', '--tags', '--', at, ...refs];
    const tooMuch = `Repository ${url} is not read as more than ${maxTagBytes} bytes are of its tags that match ${pattern}: give a pattern that fewer tags match`;
    const limits = { ms: headMs, maxOutputBytes: maxTagBytes, tooMuch };
    const answer = await remote(source, credential, args, limits, signal);
    if (answer.code !== 0) throw unreadable(url, answer.stderr, credential !== undefined);
    const commits = new Map<string, string>();
    for (const line of answer.stdout.split('\n')) {
      const [id = '', ref = ''] = line.split('\t');
      if (isCommit(id) && ref.startsWith('refs/tags/')) commits.set(ref.slice('refs/tags/'.length), id);
    }
    const names = [...commits.keys()].filter((name) => !name.endsWith('^{}') && name.length <= tagLimits.nameChars);
    const { tag: newest, matching } = newestOf(pattern, names);
    // what a tag with a message leads to stands in a line of its own
    const commit = newest === undefined ? undefined : (commits.get(`${newest}^{}`) ?? commits.get(newest));
    if (newest === undefined || commit === undefined) return { matching };
    return { newest: { tag: shown(newest), commit }, matching };
  };

  return {
    head,
    tag,

    async checkout({ url, credential, branch: name, commit, submodules, project, withinMs }, folder, signal) {
      const until = options.clock.now().getTime() + withinMs;
      const source = gitUrl(url, allowed);
      const branch = gitBranch(name);
      if (commit !== undefined && !isCommit(commit)) throw invalid(`Not the id of a commit: ${commit.slice(0, 64)}`);
      const wanted = {
        source,
        credential,
        at: placeOf(branch, commit),
        store: join(folder, 'git'),
        tree: join(folder, 'tree'),
        withinMs,
      };
      await mkdir(wanted.tree, { recursive: true });
      const packBytes = options.maxPackBytes ?? defaultMaxPackBytes;
      const treeBytes = options.maxTreeBytes ?? 2 * packBytes;
      const all = { packBytes, treeBytes };
      const budget: Budget = { ...all, files: options.maxFiles ?? defaultMaxFiles, all };
      const { clones } = options;
      const clone: CloneOf | undefined = project === undefined ? undefined : { project, url, credential };
      const isTaken = clone !== undefined && (await clones?.take(clone, wanted.store)) === true;
      const made = isTaken
        ? await checkoutAgain(
            tools,
            wanted,
            budget,
            commit ?? (await head({ url, branch, credential }, signal)),
            signal,
          )
        : await checkoutCommit(tools, wanted, budget, undefined, signal).catch(async (error: unknown) => {
            // which says what there is instead
            if (isNotFound(error)) await head({ url, branch, credential }, signal);
            throw error;
          });
      if (submodules === true) {
        const modules = join(folder, 'modules');
        const all = { tools, allowed, budget, folder: modules, until, left: submoduleLimits.count };
        await checkoutSubmodules(all, wanted, made, signal);
      }
      if (clone !== undefined) await clones?.put(clone, wanted.store);
      return {
        commit: made.commit,
        message: shown(made.subject).slice(0, maxMessageChars),
        committedAt: made.committedAt,
        leftOut: {
          submodules: submodules === true ? [] : made.submodules.map(({ path }) => shown(path)),
          pointers: (await lfsPointers(wanted.tree, made.small)).map(shown),
        },
      };
    },

    async changes({ url, credential, commit }, since, folder, signal) {
      const source = gitUrl(url, allowed);
      if (!isCommit(commit) || !isCommit(since)) return undefined;
      if (commit === since) return { files: [], truncated: false };
      const wanted = ['--depth=1', '--filter=blob:none'];
      return fetched(
        { source, credential, wanted, commits: [commit, since], folder, ...ofTrees },
        signal,
        async (own) => {
          // A few trees can stand for any number of files, and the comparison would hold all of them in memory.
          for (const one of [since, commit]) {
            const names = await own(['ls-tree', '-r', '-z', '--name-only', '--full-tree', one], maxListBytes);
            if (names.split('\0').length - 1 > (options.maxFiles ?? defaultMaxFiles)) return undefined;
          }
          const diff = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', since, commit, '--'];
          return listed((await own(diff, maxListBytes)).split('\0').slice(0, -1));
        },
      );
    },

    async follows({ url, credential, commit }, earlier, folder, signal) {
      const source = gitUrl(url, allowed);
      if (!isCommit(commit) || !isCommit(earlier)) return undefined;
      if (commit === earlier) return true;
      const wanted = ['--filter=tree:0'];
      return fetched({ source, credential, wanted, commits: [commit], folder, ...ofHistories }, signal, async (own) => {
        // it fails where a commit of the history is missing
        const history = await own(['rev-list', commit], maxHistoryBytes);
        if (history.split('\n').includes(earlier)) return true;
        return (await isThere(join(folder, 'git', 'shallow'))) ? undefined : false;
      });
    },
  };
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}

/** Returns the output of the program. @throws RuntimeFailure if it failed */
async function succeeded(running: Promise<ProcessResult>): Promise<string> {
  const { code, stdout, stderr } = await running;
  if (code !== 0) throw unreachable(reason(stderr));
  return stdout;
}

const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function shown(text: string): string {
  return text.replace(hidden, '\uFFFD');
}

/** Returns as many names as `changedFilesLimits` allow. */
function listed(names: readonly string[]): Changes {
  const files: string[] = [];
  let chars = 0;
  for (const name of names) {
    chars += name.length;
    if (
      files.length === changedFilesLimits.files ||
      chars > changedFilesLimits.chars ||
      Buffer.byteLength(name) > changedFilesLimits.nameBytes
    )
      return { files, truncated: true };
    files.push(shown(name));
  }
  return { files, truncated: false };
}

function placeOf(branch: GitBranch, commit: string | undefined): Wanted['at'] {
  if (commit !== undefined) return { commit, ifLost: 'deploy the head of the branch' };
  if (isCommit(branch)) return { commit: branch, ifLost: 'name a branch, a tag or a commit that is there' };
  return { branch };
}

function isNotFound(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'branch_not_found';
}
