import { RuntimeFailure } from '../runtime/runtime.ts';

/** The repository can be read, but does not have the branch. */
export function branchNotFound(url: string, branch: string): RuntimeFailure {
  return new RuntimeFailure('branch_not_found', `Repository ${url} has no branch ${branch}`, { retryable: false });
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

/** The host answered, but did not send the repository. */
export function unreadable(url: string, stderr: string): RuntimeFailure {
  const closed = /could not read (Username|Password)|Authentication failed|Permission denied \(/i.test(stderr);
  return unreachable(
    `Repository ${url} cannot be read: ${closed ? 'it does not exist, or needs credentials' : reason(stderr)}`,
  );
}

/** The host did not answer as a repository does; a later try may succeed. */
export function unreachable(message: string): RuntimeFailure {
  return new RuntimeFailure('repository_unreachable', message, { retryable: true });
}

/** The source is invalid; further tries cannot succeed. */
export function invalid(message: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}

/** Returns the first error message of git. */
export function reason(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim());
  const line =
    lines.find((line) => /^(fatal|error|ssh):/.test(line)) ?? lines.find((line) => line !== '') ?? 'no reason given';
  return line.replace(/^(fatal|error): /, '').slice(0, 300);
}
