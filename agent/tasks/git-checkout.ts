import { mkdir, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import type { Clock } from '../../time/clock.ts';
import type { ProcessResult } from '../machine/process.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { branchNotFound, fetchTooLarge, invalid, isDiskFull, noSpace, reason, unreadable } from './git-failure.ts';
import type { GitCall, GitProgram } from './git-program.ts';
import type { GitRemote } from './git-remote.ts';
import { sizeOf, treeSize, watchSize, type TreeSize } from './git-size.ts';
import type { ParsedGitUrl } from './git-source.ts';

export interface CheckoutTools {
  clock: Clock;
  call: GitProgram;
  remote: GitRemote;
}

/** What may still be fetched and written: a checkout takes its part of it. */
export interface Budget {
  packBytes: number;
  treeBytes: number;
  files: number;
  /** What there was at first. */
  readonly all: { readonly packBytes: number; readonly treeBytes: number };
}

export interface Wanted {
  source: ParsedGitUrl;
  credential: GitCredential | undefined;
  /** Name of a branch or a tag, or full id of a commit, and what to do if the repository does not give it. */
  at: { branch: string } | { commit: string; ifLost: string };
  /** Folder of git's own files: empty, or of an earlier checkout of the same repository. */
  store: string;
  /** Folder that gets the files. */
  tree: string;
  /** Deadline of the fetch in milliseconds. */
  withinMs: number;
}

export interface CheckedOut {
  commit: string;
  /** First line of the commit's message. */
  subject: string;
  committedAt: Date;
  submodules: TreeSize['submodules'];
  /** Paths of small files. */
  small: TreeSize['small'];
}

const localMs = 120_000;
/** Most bytes of a list of all files: enough for 200 000 of them. */
const maxListBytes = 64 * 1024 * 1024;

/** Git's own work on one store, which never touches the network. */
export function localGit(
  { call }: Pick<CheckoutTools, 'call'>,
  { source: { url }, store, tree }: Wanted,
  signal: AbortSignal,
) {
  return async (args: readonly string[], limits: Pick<GitCall, 'maxOutputBytes' | 'tooMuch'> = {}): Promise<string> => {
    const all = [`--git-dir=${store}`, `--work-tree=${tree}`, ...args];
    const settings = { url, ms: localMs, cwd: tree, protocols: new Set<never>(), ...limits };
    const { code, stdout, stderr } = await call(all, settings, signal);
    if (code !== 0)
      throw isDiskFull(stderr) ? noSpace(url) : invalid(`The files of ${url} cannot be read: ${reason(stderr)}`);
    return stdout;
  };
}

/**
 * Fetches a commit, unless the store has the one that is `known` to be it, and writes its files to `tree`: without history,
 * submodules and hooks.
 * @throws RuntimeFailure `invalid_source`, `branch_not_found`, `repository_unreachable`, `no_space`
 */
export async function checkoutCommit(
  tools: CheckoutTools,
  wanted: Wanted,
  budget: Budget,
  known: string | undefined,
  signal: AbortSignal,
): Promise<CheckedOut> {
  const { url } = wanted.source;
  const own = localGit(tools, wanted, signal);
  await own(['init', '--quiet', '--template=']);
  if (known === undefined || !(await isInStore(own, known))) await fetchCommit(tools, wanted, budget, signal);
  const text = await own(['log', '-1', '--no-color', '--encoding=UTF-8', '--format=%H%n%ct%n%s', fetchedRef]);
  const [commit = '', seconds = '', subject = ''] = text.split('\n');
  const listing = await own(['ls-tree', '-r', '-l', '-z', '--full-tree', commit], {
    maxOutputBytes: maxListBytes,
    tooMuch: `Repository ${url} has too many files`,
  });
  const { files, bytes, submodules, small } = treeSize(
    url,
    listing,
    { files: budget.files, bytes: budget.treeBytes },
    { bytes: budget.all.treeBytes },
  );
  const { bavail, bsize } = await statfs(wanted.tree);
  if (bytes > bavail * bsize) throw noSpace(url);
  budget.files -= files;
  budget.treeBytes -= bytes;
  await rm(join(wanted.store, 'index'), { force: true }); // of an earlier checkout
  await own(['checkout', '--quiet', '--force', '--detach', commit, '--']);
  return { commit, subject, committedAt: new Date(Number(seconds) * 1000), submodules, small };
}

/**
 * The same with a store that has an earlier checkout of the repository: `known`, the commit that is wanted, is fetched only if
 * it is not there. A store of which no checkout comes is removed, and everything is fetched anew.
 */
export async function checkoutAgain(
  tools: CheckoutTools,
  wanted: Wanted,
  budget: Budget,
  known: string,
  signal: AbortSignal,
): Promise<CheckedOut> {
  const first = { ...budget };
  try {
    return await checkoutCommit(tools, wanted, budget, known, signal);
  } catch (error) {
    // A damaged store makes git fail in many ways, which look like those of a repository.
    if (signal.aborted || !(error instanceof RuntimeFailure) || error.code === 'no_space') throw error;
  }
  await rm(wanted.store, { recursive: true, force: true });
  await rm(wanted.tree, { recursive: true, force: true });
  await mkdir(wanted.tree, { recursive: true });
  return checkoutCommit(tools, wanted, Object.assign(budget, first), undefined, signal);
}

/** Outside of `refs/heads`, where a tag with a message could not be. */
const fetchedRef = 'refs/setpoint/source';

async function isInStore(own: ReturnType<typeof localGit>, commit: string): Promise<boolean> {
  try {
    await own(['cat-file', '-e', `${commit}^{tree}`]);
  } catch (error) {
    if (!(error instanceof RuntimeFailure) || error.code !== 'invalid_source') throw error;
    return false;
  }
  await own(['update-ref', fetchedRef, commit]);
  return true;
}

async function fetchCommit(
  { clock, remote }: CheckoutTools,
  { source, credential, at, store, withinMs }: Wanted,
  budget: Budget,
  signal: AbortSignal,
): Promise<void> {
  const { url } = source;
  const packs = join(store, 'objects', 'pack');
  const before = await sizeOf(packs);
  const fetch =
    (wanted: string) =>
    (from: string): string[] => [
      `--git-dir=${store}`,
      'fetch',
      '--quiet',
      '--depth=1',
      '--no-tags',
      '--no-recurse-submodules',
      '--no-write-fetch-head',
      '--',
      from,
      `+${wanted}:${fetchedRef}`,
    ];
  const tooLarge = (): RuntimeFailure => fetchTooLarge(url, budget.all.packBytes);
  using watch = watchSize(clock, packs, { before, maxBytes: budget.packBytes }, tooLarge);
  const wanted = 'commit' in at ? [at.commit] : [`refs/heads/${at.branch}`, `refs/tags/${at.branch}`];
  const enough = AbortSignal.any([signal, watch.signal]);
  const until = clock.monotonic() + withinMs;
  let fetched: ProcessResult | undefined;
  for (const one of wanted) {
    const leftMs = Math.max(1, Math.ceil((until - clock.monotonic()) / 1000)) * 1000;
    fetched = await remote(source, credential, fetch(one), { ms: leftMs }, enough);
    if (!isMissing(fetched)) break;
  }
  if (fetched === undefined || isMissing(fetched))
    throw 'branch' in at
      ? branchNotFound(url, at.branch)
      : invalid(`Repository ${url} does not give commit ${at.commit} any more: ${at.ifLost}`);
  if (fetched.code !== 0)
    throw isDiskFull(fetched.stderr) ? noSpace(url) : unreadable(url, fetched.stderr, credential !== undefined);
  budget.packBytes -= await watch.look();
}

function isMissing({ code, stderr }: ProcessResult): boolean {
  return code !== 0 && /couldn't find remote ref|not our ref/i.test(stderr);
}
