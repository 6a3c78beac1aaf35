import { totalmem } from 'node:os';
import type { Clock } from '../../time/clock.ts';
import { bounded } from '../machine/bounded.ts';
import { ownerVariable } from '../machine/orphans.ts';
import { OutputLimitError, run, type ProcessResult } from '../machine/process.ts';
import type { GitAccess } from './git-access.ts';
import { invalid, outOfMemory, unreachable } from './git-failure.ts';
import type { GitProtocol } from './git-source.ts';
import { sshVariables, type SshPin } from './git-ssh.ts';

/** The addresses that connections must use, so that the name cannot lead to another machine after it was checked. */
export interface Pinned {
  https?: string;
  ssh?: SshPin | undefined;
}

export interface GitCall {
  /** The repository, for messages. */
  url: string;
  /** Deadline in milliseconds. */
  ms: number;
  maxOutputBytes?: number;
  /** What it means that git writes more than that. */
  tooMuch?: string;
  cwd?: string;
  pinned?: Pinned | undefined;
  access?: GitAccess;
  /** Protocols that this call may use; by default all that are allowed. */
  protocols?: ReadonlySet<GitProtocol>;
}

/**
 * Runs git once. A failing exit is a result.
 * @throws RuntimeFailure `repository_unreachable` at the deadline; `invalid_source` if git writes too much or needs too
 * much memory
 */
export type GitProgram = (args: readonly string[], limits: GitCall, signal: AbortSignal) => Promise<ProcessResult>;

export const maxTextBytes = 1024 * 1024;
/** Most memory of a process of git, unless half of the machine's memory is less. */
const mostMemoryBytes = 2 * 1024 ** 3;

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
  // Large files pass through: a few megabytes of pack can stand for gigabytes, once in each thread.
  'core.bigFileThreshold=16m',
  'core.deltaBaseCacheLimit=16m',
  'pack.threads=1',
];

export function gitProgram(options: {
  clock: Clock;
  owner?: string;
  sshConfig?: string;
  allowed: ReadonlySet<GitProtocol>;
  maxMemoryBytes?: number;
}): GitProgram {
  const maxMemoryBytes = options.maxMemoryBytes ?? Math.min(mostMemoryBytes, totalmem() / 2);
  return async (args, limits, signal) => {
    const { url, ms, maxOutputBytes = maxTextBytes } = limits;
    const late = new AbortController();
    const stop = options.clock.timer(ms, () =>
      late.abort(unreachable(`Repository ${url} did not answer in time: git did not end within ${ms / 1000} s`)),
    );
    const pinned = limits.pinned?.https === undefined ? [] : [`http.curloptResolve=${limits.pinned.https}`];
    const all = [...[...settings, ...pinned].flatMap((setting) => ['-c', setting]), ...args];
    const { shell, args: shellArgs } = bounded('git', all, maxMemoryBytes);
    try {
      const given = {
        args: shellArgs,
        env: {
          ...environment(limits.protocols ?? options.allowed),
          ...sshVariables(options.sshConfig, limits.pinned?.ssh, limits.access?.ssh),
          ...limits.access?.env,
          ...(options.owner === undefined ? {} : { [ownerVariable]: options.owner }),
        },
        maxOutputBytes,
        ...(limits.cwd === undefined ? {} : { cwd: limits.cwd }),
      };
      const result = await run(shell, given, AbortSignal.any([signal, late.signal]));
      if (result.code !== 0 && /^fatal: (Out of memory|mmap failed: Cannot allocate)/m.test(result.stderr))
        throw outOfMemory(url, maxMemoryBytes);
      return result;
    } catch (error) {
      if (!(error instanceof OutputLimitError)) throw error;
      throw invalid(
        limits.tooMuch ??
          `Repository ${url} is not read as git reports more than ${maxOutputBytes} bytes about it: its host sends too many messages, or the first line of the commit's message is very long`,
        error,
      );
    } finally {
      stop();
    }
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
    // What a host does not send is missing: git would ask for it again and again, each time in one more process.
    GIT_NO_LAZY_FETCH: '1',
    GIT_ALLOW_PROTOCOL: [...allowed].join(':'),
  };
}
