import { lstat, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { WireAssignment, WireBuild } from '../../agent-protocol/assignment.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import { contextArchive, dockerfileName } from './build-context.ts';
import { containedPath } from './contained-path.ts';
import type { Git } from './git.ts';
import { ignoreFile, type IgnoreFile } from './ignore-file.ts';
import { labelledDockerfile } from './labelled-dockerfile.ts';
import type { WorkFolder } from './work-folder.ts';

export interface BuildDeps {
  runtime: ContainerRuntime;
  git: Git;
  folder: WorkFolder;
  /** Id of this server, for the image's labels. */
  server: string;
}

export interface BuiltImage {
  /** Id of the image that was built. */
  image: string;
  digest: string;
  commit: string;
  commitMessage: string;
}

/** A repository that does not answer is told as such, before the deadline of the whole build ends it. */
const fetchShare = 0.6;
const maxFetchMs = 300_000;
const maxDockerfileBytes = 1024 * 1024;
const maxIgnoreBytes = 256 * 1024;
const keptLines = 8;
const maxTailChars = 1500;

/**
 * Builds the image of an item from the head of its branch. Its result depends on nothing but the repository and the
 * item, so it may be repeated. `signal` is the deadline.
 * @throws RuntimeFailure `invalid_source`, `repository_unreachable`, `branch_not_found`, `dockerfile_not_found`,
 * `path_outside_repository`, `build_failed` with the last lines of the output, `no_space`.
 */
export async function runBuild(
  item: WireAssignment & { spec: WireBuild },
  deps: BuildDeps,
  line: (text: string) => void,
  signal: AbortSignal,
): Promise<BuiltImage> {
  const { spec } = item;
  assertBuildArgs(spec.build_args);
  await using folder = await deps.folder.make();
  line(`Cloning ${spec.repository_url}, branch ${spec.branch}`);
  const withinMs = Math.min(maxFetchMs, spec.deadline_seconds * 1000 * fetchShare);
  const source = { url: spec.repository_url, branch: spec.branch, withinMs };
  const { commit, message, committedAt } = await deps.git.checkout(source, folder.path, signal);
  line(`Checked out ${commit} ${message}`);
  const root = await realpath(join(folder.path, 'tree'));
  const context = await findContext(root, spec.build_context);
  const dockerfile = await readDockerfile(root, context, spec.dockerfile_path);
  const given = {
    [labels.server]: deps.server,
    [labels.tenant]: item.tenant,
    [labels.workload]: item.workload_id,
    [labels.assignment]: item.id,
    [labels.type]: 'build',
    'org.opencontainers.image.revision': commit,
  };
  const labelled = labelledDockerfile(dockerfile, given);
  const options = {
    context: contextArchive(
      {
        folder: context,
        dockerfile: labelled ?? dockerfile,
        ignore: await readIgnoreFile(context),
        modifiedAt: committedAt,
      },
      signal,
    ),
    dockerfile: dockerfileName,
    tag: spec.image,
    buildArgs: spec.build_args,
    labels: labelled === undefined ? given : {},
  };
  const last: string[] = [];
  const keep = (text: string): void => {
    last.push(text);
    if (last.length > keptLines) last.shift();
    line(text);
  };
  try {
    const built = await deps.runtime.build(options, keep, signal);
    line(`Built ${spec.image}`);
    return { image: built.id, digest: built.digest, commit, commitMessage: message };
  } catch (error) {
    if (!(error instanceof RuntimeFailure) || error.code !== 'build_failed' || last.length === 0) throw error;
    const tail = last.join('\n').slice(-maxTailChars);
    throw new RuntimeFailure('build_failed', `${error.message}\n${tail}`, { retryable: error.retryable, cause: error });
  }
}

async function findContext(root: string, path: string): Promise<string> {
  const context = await containedPath(root, path);
  if (context !== undefined && (await lstat(context)).isDirectory()) return context;
  throw new RuntimeFailure('invalid_source', `The repository has no folder ${path} to build in`, { retryable: false });
}

/** By its path in the repository, or else in the build context: both are meant by people. */
async function readDockerfile(root: string, context: string, path: string): Promise<Buffer> {
  const found = (await regularFile(root, path)) ?? (await regularFile(context, path));
  if (found === undefined) {
    throw new RuntimeFailure('dockerfile_not_found', `The repository has no file ${path}`, { retryable: false });
  }
  if (found.size > maxDockerfileBytes) {
    const message = `${path} is larger than ${maxDockerfileBytes} bytes`;
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
  return readFile(found.path);
}

async function readIgnoreFile(context: string): Promise<IgnoreFile> {
  const found = await regularFile(context, '.dockerignore');
  try {
    if (found !== undefined && found.size > maxIgnoreBytes) throw new RangeError('.dockerignore is too large');
    return ignoreFile(found === undefined ? '' : await readFile(found.path, 'utf8'));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new RuntimeFailure('invalid_source', error.message, { retryable: false, cause: error });
  }
}

async function regularFile(root: string, path: string): Promise<{ path: string; size: number } | undefined> {
  const found = await containedPath(root, path);
  if (found === undefined) return undefined;
  const it = await lstat(found);
  return it.isFile() ? { path: found, size: it.size } : undefined;
}

function assertBuildArgs(args: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(args)) {
    if (/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !value.includes('\0')) continue;
    const message = `Not the name of a build argument: ${JSON.stringify(name.slice(0, 200))}`;
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
}
