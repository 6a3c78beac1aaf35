import { RuntimeFailure } from '../runtime/runtime.ts';

/** The repository is there, the branch is not. */
export function branchNotFound(url: string, branch: string): RuntimeFailure {
  return new RuntimeFailure('branch_not_found', `Repository ${url} has no branch ${branch}`, { retryable: false });
}

/** The disk took no more of what git wrote; of some files it does not say why. */
export function isDiskFull(stderr: string): boolean {
  return /No space left on device|Disk quota exceeded|unable to write file/i.test(stderr);
}

/** What git wrote found no room. */
export function noSpace(url: string): RuntimeFailure {
  const message = `There is no space left on the server's disk for repository ${url}`;
  return new RuntimeFailure('no_space', message, { retryable: true });
}

/** The host answered, and not with the repository. */
export function unreadable(url: string, stderr: string): RuntimeFailure {
  const closed = /could not read (Username|Password)|Authentication failed|Permission denied \(/i.test(stderr);
  return unreachable(
    `Repository ${url} cannot be read: ${closed ? 'it does not exist, or needs credentials' : reason(stderr)}`,
  );
}

/** Nobody answered as a repository would: it may, later. */
export function unreachable(message: string): RuntimeFailure {
  return new RuntimeFailure('repository_unreachable', message, { retryable: true });
}

/** What can never be taken, however often it is tried. */
export function invalid(message: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}

/** The first complaint of git. */
export function reason(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim());
  const said =
    lines.find((line) => /^(fatal|error|ssh):/.test(line)) ?? lines.find((line) => line !== '') ?? 'no reason given';
  return said.replace(/^(fatal|error): /, '').slice(0, 300);
}
