import { access, cp, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Runs a program to its end; rejects if it fails. */
export type Run = (
  program: string,
  argv: readonly string[],
  options: { cwd: string; env: Record<string, string> },
) => Promise<unknown>;

const source = new URL('examples/hello/', import.meta.url).pathname;

/** Keeps the machine's git settings and the time out of the first commit, so that its id is always the same. */
const env = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_DATE: '2026-01-01T00:00:00Z',
  GIT_COMMITTER_DATE: '2026-01-01T00:00:00Z',
};

/**
 * Makes sure that `directory` is a git repository with the example application on its branch `main`. An existing
 * repository stays as it is, with all later commits. The directory appears complete or not at all.
 */
export async function ensureExampleRepository(directory: string, run: Run): Promise<void> {
  if (await isRepository(directory)) return;
  const partial = `${directory}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(dirname(directory), { recursive: true });
  await cp(source, partial, { recursive: true });
  const git = (...argv: string[]) => run('git', argv, { cwd: partial, env });
  await git('init', '--quiet', '--initial-branch=main');
  await git('config', 'user.name', 'Setpoint');
  await git('config', 'user.email', 'setpoint@localhost');
  await git('add', '--all');
  await git('commit', '--quiet', '--message=Say hello');
  await rename(partial, directory);
}

async function isRepository(directory: string): Promise<boolean> {
  return access(join(directory, '.git')).then(
    () => true,
    () => false,
  );
}
