import { RuntimeFailure } from '../runtime/runtime.ts';
import { firstThatPins, type GitVersion } from './git-version.ts';

/**
 * The repository can be read, but has neither a branch nor a tag of that name. `instead`: the branch that it begins with;
 * `empty`: it has no commit at all.
 */
export function branchNotFound(
  url: string,
  branch: string,
  { instead, empty = false }: { instead?: string | undefined; empty?: boolean } = {},
): RuntimeFailure {
  return new RuntimeFailure('branch_not_found', `Repository ${url} ${lackOf(branch, instead, empty)}`, {
    retryable: false,
  });
}

function lackOf(branch: string, instead: string | undefined, empty: boolean): string {
  if (empty) return `is empty: push a commit to branch ${branch}`;
  const lack = `has no branch or tag ${branch}`;
  if (/^[0-9a-f]{7,63}$/.test(branch)) return `${lack}: a commit is named by all digits of its id`;
  return instead === undefined ? lack : `${lack}: its default branch is ${instead}`;
}

/** True if git could not write to the disk. For some files git gives no reason. */
export function isDiskFull(stderr: string): boolean {
  return /No space left on device|Disk quota exceeded|unable to write file/i.test(stderr);
}

/** The disk has no space for the repository. */
export function noSpace(url: string): RuntimeFailure {
  const message = `There is no space left on the server's disk for repository ${url}`;
  return new RuntimeFailure('no_space', message, { retryable: true });
}

/** The host answered, but did not send the repository. `hasAccess`: a credential was sent. */
export function unreadable(url: string, stderr: string, hasAccess = false): RuntimeFailure {
  if (hasAccess && /Host key verification failed/i.test(stderr)) {
    const message = `Repository ${url} is not read: its host shows another key than those that the git credential has in host_keys. Someone may stand in between; if the host has a new key, compare it with what its operator publishes, and change host_keys`;
    return new RuntimeFailure('repository_unreachable', message, { retryable: false });
  }
  const closed =
    /could not read (Username|Password)|Authentication failed|Permission denied \(|returned error: 40[13]/i.test(
      stderr,
    );
  const why = hasAccess
    ? 'its host refuses the git credential, or has no such repository for it'
    : 'it does not exist, or needs credentials: give the application a git_credential_id';
  return unreachable(`Repository ${url} cannot be read: ${closed ? why : reason(stderr)}`);
}

/** The host did not answer as a repository does; a later try may succeed. */
export function unreachable(message: string): RuntimeFailure {
  return new RuntimeFailure('repository_unreachable', message, { retryable: true });
}

/** The git of this machine would ignore that it must connect to the address that was checked. */
export function pinless(url: string, version: GitVersion | undefined): RuntimeFailure {
  const message =
    version === undefined
      ? `Repository ${url} is not read as there is no git on the server: install git ${firstThatPins} or later there`
      : `Repository ${url} is not read as git ${version.text} of the server cannot hold a connection to the address that was checked: install git ${firstThatPins} or later there, or give the address by ssh`;
  return new RuntimeFailure('repository_unreachable', message, { retryable: false });
}

/** The source is invalid; further tries cannot succeed. */
export function invalid(message: string, cause?: unknown): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false, ...(cause !== undefined && { cause }) });
}

const remedy =
  'keep large files out of it, deploy an image that was built elsewhere, or set SETPOINT_GIT_MAX_BYTES of the agent on this server';

/** More would be fetched than all repositories of a build may have together. */
export function fetchTooLarge(url: string, mostBytes: number): RuntimeFailure {
  return invalid(
    `Repository ${url} is not fetched as it is larger than ${inUnits(mostBytes)}, all that a build may fetch: ${remedy}`,
  );
}

/** The files would have more bytes than those of all repositories of a build may have together. */
export function filesTooLarge(url: string, mostBytes: number): RuntimeFailure {
  return invalid(
    `Repository ${url} is not checked out as its files are larger than ${inUnits(mostBytes)}, all that a build may have: ${remedy}`,
  );
}

/** The bytes in the largest unit of which they are a whole number. */
function inUnits(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let [count, unit] = [bytes, 0];
  for (; unit < units.length - 1 && count % 1024 === 0; unit++) count /= 1024;
  return `${count} ${units[unit] ?? ''}`;
}

/** Git may not use as much memory as the files of the repository need. */
export function outOfMemory(url: string, maxMemoryBytes: number): RuntimeFailure {
  const bound = `${Math.floor(maxMemoryBytes / 1024 ** 2)} MiB`;
  return invalid(
    `Repository ${url} cannot be read with ${bound} of memory, which is all that git may use on this server: it has very large files that are stored as differences of each other, or is made to exhaust servers. Keep large files out of it`,
  );
}

/** Returns the first error message of git. */
export function reason(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim());
  const line =
    lines.find((line) => /^(fatal|error|ssh):/.test(line)) ?? lines.find((line) => line !== '') ?? 'no reason given';
  return line.replace(/^(fatal|error): /, '').slice(0, 300);
}
