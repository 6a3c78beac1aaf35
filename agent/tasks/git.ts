import { mkdir, realpath, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../time/clock.ts';
import { changedFilesLimits } from '../../agent-protocol/messages.ts';
import { networks } from '../../network/address.ts';
import { ownerVariable } from '../machine/orphans.ts';
import { OutputLimitError, run, type ProcessResult } from '../machine/process.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { branchNotFound, invalid, isDiskFull, noSpace, reason, unreachable, unreadable } from './git-failure.ts';
import { gitHostAddresses } from './git-host.ts';
import { gitBranch, gitUrl, type GitProtocol, type ParsedGitUrl } from './git-source.ts';
import { checkSize, watchSize } from './git-size.ts';
import { sshPin, sshVariables, type SshPin } from './git-ssh.ts';

export interface GitOptions {
  clock: Clock;
  /** Protocols that are allowed in addition to https and ssh. */
  protocols: readonly Exclude<GitProtocol, 'https' | 'ssh'>[];
  /** Folders below which repositories may be fetched by `file://`. */
  fileRoots: readonly string[];
  /** Allows all addresses, also those of this machine and its link. */
  loopback: boolean;
  /** Private networks that repositories may be in, such as `10.0.0.0/8`; none by default. */
  privateNetworks?: readonly string[];
  /** Most files of one repository at one commit; 200 000 by default. */
  maxFiles?: number;
  /** Name of the agent in the environment of its programs, by which the next agent finds those of a killed one. */
  owner?: string;
  /** Configuration file of ssh, with key and known hosts. Absent: ssh has no key. */
  sshConfig?: string;
}

export interface Checkout {
  /** Full id of the commit. */
  commit: string;
  /** First line of its message, at most 200 characters; control and invisible characters are replaced. */
  message: string;
  committedAt: Date;
}

/** Reads repositories by the `git` program. Every repository may be hostile: nothing of it is run or trusted. */
export interface Git {
  /**
   * Returns the commit at the head of a branch.
   * @throws RuntimeFailure `invalid_source`, `branch_not_found`, `repository_unreachable`
   */
  head(url: string, branch: string, signal: AbortSignal): Promise<string>;
  /**
   * Writes the files of a commit, by default of a branch's head, to `folder/tree`, without history, submodules and
   * hooks. The fetch must end within `withinMs` milliseconds.
   * @throws RuntimeFailure as `head`, and `no_space`
   */
  checkout(
    source: { url: string; branch: string; commit?: string | undefined; withinMs: number },
    folder: string,
    signal: AbortSignal,
  ): Promise<Checkout>;
  /**
   * Returns the files that differ between two commits, by their trees, which are fetched to `folder/git`. Returns
   * `undefined` if that cannot be known: a commit is invalid or lost, the host sends no commit by its id, or the trees
   * are too large or take too long.
   * @throws RuntimeFailure `invalid_source`
   */
  changes(
    source: { url: string; commit: string },
    since: string,
    folder: string,
    signal: AbortSignal,
  ): Promise<Changes | undefined>;
}

export interface Changes {
  /** Paths from the root of the repository; control and invisible characters are replaced. */
  files: string[];
  /** More files have changed than are listed. */
  truncated: boolean;
}

const headMs = 30_000;
const localMs = 120_000;
/** Deadline for a whole comparison: the caller waits for the commit, and the files are optional. */
const changesMs = 10_000;
const maxPackBytes = 2 * 1024 ** 3;
/** Most bytes of fetched trees. If the host ignores the filter and sends files too, only a small repository fits. */
const maxTreesBytes = 64 * 1024 * 1024;
const defaultMaxFiles = 200_000;
const maxMessageChars = 200;
/** Most bytes of a list of all files: enough for `defaultMaxFiles`. */
const maxListBytes = 64 * 1024 * 1024;
const maxTextBytes = 1024 * 1024;

/** Settings of git: it ignores the machine's configuration, never prompts, and runs nothing of a repository. */
const settings = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.attributesFile=/dev/null',
  'credential.helper=',
  'http.followRedirects=false',
  'http.lowSpeedLimit=1',
  'http.lowSpeedTime=60',
  'fetch.recurseSubmodules=false',
  'submodule.recurse=false',
  // `watchSize` can measure a growing pack, but not single objects.
  'fetch.unpackLimit=1',
  'gc.auto=0',
  'maintenance.auto=false',
  'log.showSignature=false',
];

export function git(options: GitOptions): Git {
  const allowed = new Set<GitProtocol>(['https', 'ssh', ...options.protocols]);

  const call = async (
    args: readonly string[],
    limits: {
      url: string;
      ms: number;
      maxOutputBytes?: number;
      cwd?: string;
      pinned?: Pinned | undefined;
      protocols?: ReadonlySet<GitProtocol>;
    },
    signal: AbortSignal,
  ): Promise<ProcessResult> => {
    const late = new AbortController();
    const stop = options.clock.timer(limits.ms, () =>
      late.abort(
        unreachable(`Repository ${limits.url} did not answer in time: git did not end within ${limits.ms / 1000} s`),
      ),
    );
    const pinned = limits.pinned?.https === undefined ? [] : [`http.curloptResolve=${limits.pinned.https}`];
    try {
      const given = {
        args: [...[...settings, ...pinned].flatMap((setting) => ['-c', setting]), ...args],
        env: {
          ...environment(limits.protocols ?? allowed),
          ...sshVariables(options.sshConfig, limits.pinned?.ssh),
          ...(options.owner === undefined ? {} : { [ownerVariable]: options.owner }),
        },
        maxOutputBytes: limits.maxOutputBytes ?? maxTextBytes,
        ...(limits.cwd === undefined ? {} : { cwd: limits.cwd }),
      };
      return await run('git', given, AbortSignal.any([signal, late.signal]));
    } finally {
      stop();
    }
  };

  /** Runs one command against a repository. If the host redirects, tries the address with `.git` once. */
  const remote = async (
    source: ParsedGitUrl,
    args: (url: string) => readonly string[],
    ms: number,
    signal: AbortSignal,
  ): Promise<ProcessResult> => {
    const pinned = await allowedAddress(source, options, signal);
    const first = await call(args(source.url), { url: source.url, ms, pinned }, signal);
    const moved = first.code !== 0 && /returned error: 30[1278]/.test(first.stderr) && !source.url.endsWith('.git');
    return moved ? call(args(`${source.url}.git`), { url: source.url, ms, pinned }, signal) : first;
  };

  return {
    async head(url, name, signal) {
      const source = gitUrl(url, allowed);
      const branch = gitBranch(name);
      const args = (at: string): string[] => ['ls-remote', '--heads', '--', at, `refs/heads/${branch}`];
      const answer = await remote(source, args, headMs, signal);
      if (answer.code !== 0) throw unreadable(url, answer.stderr);
      const line = answer.stdout.split('\n').find((one) => one.endsWith(`\trefs/heads/${branch}`));
      const commit = line?.split('\t')[0];
      if (commit === undefined || !isCommit(commit)) throw branchNotFound(url, branch);
      return commit;
    },

    async checkout({ url, branch: name, commit: wanted, withinMs }, folder, signal) {
      const source = gitUrl(url, allowed);
      const branch = gitBranch(name);
      if (wanted !== undefined && !isCommit(wanted)) throw invalid(`Not the id of a commit: ${wanted.slice(0, 64)}`);
      const store = join(folder, 'git');
      const tree = join(folder, 'tree');
      await mkdir(tree, { recursive: true });
      const own = async (args: readonly string[], maxOutputBytes = maxTextBytes): Promise<string> => {
        const all = [`--git-dir=${store}`, `--work-tree=${tree}`, ...args];
        const { code, stdout, stderr } = await call(all, { url, ms: localMs, maxOutputBytes, cwd: tree }, signal);
        if (code !== 0)
          throw isDiskFull(stderr) ? noSpace(url) : invalid(`The files of ${url} cannot be read: ${reason(stderr)}`);
        return stdout;
      };
      await own(['init', '--quiet', '--template=']);
      const fetch = (at: string): string[] => [
        `--git-dir=${store}`,
        'fetch',
        '--quiet',
        '--depth=1',
        '--no-tags',
        '--no-recurse-submodules',
        '--no-write-fetch-head',
        '--',
        at,
        `+${wanted ?? `refs/heads/${branch}`}:refs/heads/source`,
      ];
      using watch = watchSize(options.clock, join(store, 'objects', 'pack'), maxPackBytes, url);
      const fetched = await remote(source, fetch, withinMs, AbortSignal.any([signal, watch.signal]));
      if (/couldn't find remote ref|not our ref/i.test(fetched.stderr))
        throw wanted === undefined
          ? branchNotFound(url, branch)
          : invalid(`Repository ${url} does not give commit ${wanted} any more: deploy the head of the branch`);
      if (fetched.code !== 0) throw isDiskFull(fetched.stderr) ? noSpace(url) : unreadable(url, fetched.stderr);
      const text = await own([
        'log',
        '-1',
        '--no-color',
        '--encoding=UTF-8',
        '--format=%H%n%ct%n%s',
        'refs/heads/source',
      ]);
      const [commit = '', seconds = '', message = ''] = text.split('\n');
      const bytes = await checkSize(url, options.maxFiles ?? defaultMaxFiles, () =>
        own(['ls-tree', '-r', '-l', '-z', '--full-tree', commit], maxListBytes),
      );
      const { bavail, bsize } = await statfs(tree);
      if (bytes > bavail * bsize) throw noSpace(url);
      await own(['checkout', '--quiet', '--force', '--detach', commit, '--']);
      return {
        commit,
        message: shown(message).slice(0, maxMessageChars),
        committedAt: new Date(Number(seconds) * 1000),
      };
    },

    async changes({ url, commit }, since, folder, signal) {
      const source = gitUrl(url, allowed);
      if (!isCommit(commit) || !isCommit(since)) return undefined;
      if (commit === since) return { files: [], truncated: false };
      const store = join(folder, 'git');
      const late = new AbortController();
      const stop = options.clock.timer(changesMs, () => late.abort(unreachable(`Repository ${url} takes too long`)));
      using watch = watchSize(options.clock, join(store, 'objects', 'pack'), maxTreesBytes, url);
      const enough = AbortSignal.any([signal, late.signal, watch.signal]);
      // Without this, git would silently fetch missing objects, from an address that was not checked.
      const offline = new Set<GitProtocol>();
      const own = (args: readonly string[], maxOutputBytes: number): Promise<string> =>
        succeeded(
          call(
            [`--git-dir=${store}`, ...args],
            { url, ms: changesMs, maxOutputBytes, cwd: folder, protocols: offline },
            enough,
          ),
        );
      const fetch = (at: string): string[] => [
        `--git-dir=${store}`,
        'fetch',
        '--quiet',
        '--depth=1',
        '--filter=blob:none',
        '--no-tags',
        '--no-recurse-submodules',
        '--no-write-fetch-head',
        '--',
        at,
        commit,
        since,
      ];
      try {
        await own(['init', '--quiet', '--bare', '--template='], maxTextBytes);
        await succeeded(remote(source, fetch, changesMs, enough));
        // A few trees can stand for any number of files, and the comparison would hold all of them in memory.
        for (const one of [since, commit]) {
          const names = await own(['ls-tree', '-r', '-z', '--name-only', '--full-tree', one], maxListBytes);
          if (names.split('\0').length - 1 > (options.maxFiles ?? defaultMaxFiles)) return undefined;
        }
        const text = await own(
          ['diff-tree', '-r', '-z', '--name-only', '--no-renames', since, commit, '--'],
          maxListBytes,
        );
        return listed(text.split('\0').slice(0, -1));
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof RuntimeFailure || error instanceof OutputLimitError) return undefined;
        throw error;
      } finally {
        stop();
      }
    },
  };
}

function environment(allowed: ReadonlySet<GitProtocol>): Record<string, string> {
  return {
    HOME: '/nonexistent',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_ALLOW_PROTOCOL: [...allowed].join(':'),
  };
}

/** The addresses that connections must use, so that the name cannot lead to another machine after it was checked. */
interface Pinned {
  https?: string;
  ssh?: SshPin | undefined;
}

/** Returns the pin of an allowed repository. @throws RuntimeFailure `invalid_source` if it may not be fetched */
async function allowedAddress(
  source: ParsedGitUrl,
  options: GitOptions,
  signal: AbortSignal,
): Promise<Pinned | undefined> {
  if (source.protocol === 'file') {
    const path = await realpath(fileURLToPath(source.url)).catch(() => undefined);
    if (path === undefined) throw unreachable(`There is no repository at ${source.url}`);
    if (options.fileRoots.some((root) => root === '/' || path === root || path.startsWith(`${root}/`)))
      return undefined;
    throw invalid(
      options.fileRoots.length === 0
        ? `Sources by file need a folder that this server's agent was given with --git-file-roots: ${source.url}`
        : `Repositories of this server are below ${options.fileRoots.join(', ')}: ${source.url}`,
    );
  }
  if (options.loopback) return undefined;
  const addresses = await gitHostAddresses(source.host, networks(options.privateNetworks ?? []), signal);
  const [first] = addresses;
  if (source.protocol === 'ssh')
    return first === undefined ? undefined : { ssh: await sshPin(source, first, options.sshConfig, signal) };
  const https = `${source.host}:${source.port}:${addresses.map((one) => (one.includes(':') ? `[${one}]` : one)).join(',')}`;
  return { https };
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

function isCommit(text: string): boolean {
  return /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(text);
}
