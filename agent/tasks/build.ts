import { lstat, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { generatedPath } from '../../agent-protocol/generated-dockerfile.ts';
import { findContext } from './build-folder.ts';
import type { BuildProgress, BuildSource } from './build-progress.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { StepGuard } from '../ports/step-guard.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { buildByKit } from './build-by-kit.ts';
import { buildClassic } from './build-classic.ts';
import type { Prepared } from './prepared-build.ts';
import { containedPath } from './contained-path.ts';
import { generatedFor } from './generated-dockerfile.ts';
import type { Git } from './git.ts';
import { ignoreFile, type IgnoreFile } from './ignore-file.ts';
import type { TaskItem } from './task.ts';
import type { WorkFolder } from './work-folder.ts';

export interface BuildDeps {
  runtime: ContainerRuntime;
  git: Git;
  images: ImageStore;
  folder: WorkFolder;
  steps: StepGuard;
  /** Id of this server, for the image's labels. */
  server: string;
}

export interface BuiltImage extends BuildSource {
  /** Id of the image that was built. */
  image: string;
  digest: string;
}

/** Share of the build's deadline for the fetch, so that a repository that does not answer is reported as the cause. */
const fetchShare = 0.6;
const maxFetchMs = 300_000;
const maxDockerfileBytes = 1024 * 1024;
const maxIgnoreBytes = 256 * 1024;
/** The engine gets the arguments in the address of its request, which may have 1 MiB. */
const maxArgumentChars = 768 * 1024;

/**
 * Builds the image of an item from its commit, or from the head of its branch. The result depends only on the
 * repository and the item, so that a build may be repeated. `signal` is the deadline.
 * @throws RuntimeFailure `invalid_source`, `image_not_allowed`, `image_not_found`, `image_pull_failed`,
 * `repository_unreachable`, `branch_not_found`, `dockerfile_not_found`, `path_outside_repository`, `no_space`,
 * `build_failed` with the last lines of the output
 */
export async function runBuild(
  item: TaskItem<'build'>,
  deps: BuildDeps,
  { line, checkedOut, at }: BuildProgress,
  signal: AbortSignal,
): Promise<BuiltImage> {
  const { spec } = item;
  assertBuildArgs(spec.build_args);
  await using folder = await deps.folder.make();
  at({ step: 'cloning' });
  line(
    `Cloning ${spec.repository_url}, ${spec.commit === undefined ? `branch ${spec.branch}` : `commit ${spec.commit}`}`,
  );
  const withinMs = Math.min(maxFetchMs, spec.deadline_seconds * 1000 * fetchShare);
  const wanted = {
    url: spec.repository_url,
    branch: spec.branch,
    commit: spec.commit,
    credential: spec.git_credential,
    submodules: spec.submodules,
    project: item.project_id,
    withinMs,
  };
  const { commit, message, committedAt } = await deps.git.checkout(wanted, folder.path, signal);
  line(`Checked out ${commit} ${message}`);
  checkedOut({ commit, commitMessage: message });
  const root = await realpath(join(folder.path, 'tree'));
  const context = await findContext(root, spec.build_context);
  const builder = await deps.runtime.builder(signal);
  const generated =
    spec.dockerfile_path === generatedPath ? await generatedFor(context, spec, builder, line) : undefined;
  const source: BuildSource = { commit, commitMessage: message, ...(generated && { dockerfile: generated.text }) };
  if (generated !== undefined) checkedOut(source);
  const prepared: Prepared = {
    item,
    commit,
    written: await dockerfileOf(root, context, spec, generated?.text),
    context: { folder: context, ignore: await readIgnoreFile(context, generated?.ignore), modifiedAt: committedAt },
  };
  const progress = { line, at };
  const built =
    builder.type === 'buildkit'
      ? await buildByKit(prepared, builder.version, deps, progress, signal)
      : await buildClassic(prepared, deps, progress, signal);
  line(`Built ${spec.image}`);
  return { image: built.id, digest: built.digest, ...source };
}

async function dockerfileOf(
  root: string,
  context: string,
  { dockerfile_path: path, dockerfile_text: given }: TaskItem<'build'>['spec'],
  generated: string | undefined,
): Promise<Buffer> {
  const text = generated ?? given;
  return text === undefined ? findDockerfile(root, context, path) : Buffer.from(text, 'utf8');
}

/** Finds the Dockerfile by its path in the repository, or else in the build context: users mean either. */
async function findDockerfile(root: string, context: string, path: string): Promise<Buffer> {
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

/** The ignore file of the context, after patterns that it may make exceptions of. */
async function readIgnoreFile(context: string, before: readonly string[] = []): Promise<IgnoreFile> {
  const found = await regularFile(context, '.dockerignore');
  try {
    if (found !== undefined && found.size > maxIgnoreBytes) throw new RangeError('.dockerignore is too large');
    const own = found === undefined ? '' : await readFile(found.path, 'utf8');
    return ignoreFile([...before, own.replace(/^\uFEFF/, '')].join('\n'));
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
    if (/^[^\p{C}\s=]{1,256}$/u.test(name) && !value.includes('\0')) continue;
    const message = `Not the name of a build argument: ${JSON.stringify(name.slice(0, 200))}`;
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
  if (encodeURIComponent(JSON.stringify(args)).length <= maxArgumentChars) return;
  const message = `The build arguments are larger than the container engine takes, about ${maxArgumentChars / 1024} KiB together: put what is large into the repository or into build secrets`;
  throw new RuntimeFailure('invalid_source', message, { retryable: false });
}
