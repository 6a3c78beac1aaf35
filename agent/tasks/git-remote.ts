import { realpath } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import { networks } from '../../network/address.ts';
import type { ProcessResult } from '../machine/process.ts';
import { gitAccess, type GitAccess } from './git-access.ts';
import { invalid, pinless, unreachable } from './git-failure.ts';
import { gitHostAddresses } from './git-host.ts';
import type { GitCall, GitProgram, Pinned } from './git-program.ts';
import type { ParsedGitUrl } from './git-source.ts';
import { sshPin } from './git-ssh.ts';
import { gitVersion, pinsAddresses, type ReadGitVersion } from './git-version.ts';
import type { WorkFolder } from './work-folder.ts';

/** From where repositories may be fetched. */
export interface RemoteOptions {
  /** Folders below which repositories may be fetched by `file://`. */
  fileRoots: readonly string[];
  /** Allows all addresses, also those of this machine and its link. */
  loopback: boolean;
  /** Private networks that repositories may be in, such as `10.0.0.0/8`; none by default. */
  privateNetworks?: readonly string[];
  /** By default that of the machine. */
  version?: ReadGitVersion;
  /** Configuration file of ssh, with key and known hosts. Absent: ssh has no key. */
  sshConfig?: string;
  /** Where the files of credentials lie while they are used. Absent: credentials that need files are refused. */
  folder?: WorkFolder;
}

/**
 * Runs one command of git against a repository, at an address that was judged. If the host redirects, tries the address
 * with `.git` once. A failing exit is a result.
 * @throws RuntimeFailure `invalid_source`, `repository_unreachable`
 */
export type GitRemote = (
  source: ParsedGitUrl,
  credential: GitCredential | undefined,
  args: (url: string) => readonly string[],
  limits: Pick<GitCall, 'ms' | 'maxOutputBytes' | 'tooMuch'>,
  signal: AbortSignal,
) => Promise<ProcessResult>;

export function gitRemote(options: RemoteOptions, call: GitProgram): GitRemote {
  let pins = false;
  /** @throws RuntimeFailure `repository_unreachable` if git would ignore the address that it must connect to */
  const assertPins = async (url: string, signal: AbortSignal): Promise<void> => {
    if (pins) return;
    const version = await (options.version ?? gitVersion)(signal);
    pins = version !== undefined && pinsAddresses(version);
    if (!pins) throw pinless(url, version);
  };

  return async (source, credential, args, limits, signal) => {
    await using access = await gitAccess(source, credential, options.folder);
    const pinned = await allowedAddress(source, options, access, signal);
    if (pinned?.https !== undefined) await assertPins(source.url, signal);
    const first = await call(args(source.url), { url: source.url, ...limits, pinned, access }, signal);
    const moved = first.code !== 0 && /returned error: 30[1278]/.test(first.stderr) && !source.url.endsWith('.git');
    return moved
      ? await call(args(`${source.url}.git`), { url: source.url, ...limits, pinned, access }, signal)
      : first;
  };
}

/** Returns the pin of an allowed repository. @throws RuntimeFailure `invalid_source` if it may not be fetched */
async function allowedAddress(
  source: ParsedGitUrl,
  options: RemoteOptions,
  access: GitAccess,
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
    return first === undefined
      ? undefined
      : { ssh: await sshPin(source, first, access.ssh === undefined ? options.sshConfig : undefined, signal) };
  const https = `${source.host}:${source.port}:${addresses.map((one) => (one.includes(':') ? `[${one}]` : one)).join(',')}`;
  return { https };
}
