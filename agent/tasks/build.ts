import { lstat, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { TaskSpec } from '../../agent-protocol/task-types.ts';
import { buildNetwork } from './build-network.ts';
import type { BuildProgress, BuildSource } from './build-progress.ts';
import type { ImageOwner } from '../engine/image-record.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, RuntimeFailure, stageType } from '../runtime/runtime.ts';
import { buildSteps } from './build-steps.ts';
import { contextArchive, dockerfileName } from './build-context.ts';
import { containedPath } from './contained-path.ts';
import { judgeTriggers, readDockerfile } from './dockerfile.ts';
import type { Git } from './git.ts';
import { ignoreFile, type IgnoreFile } from './ignore-file.ts';
import type { TaskItem } from './task.ts';
import type { WorkFolder } from './work-folder.ts';

export interface BuildDeps {
  runtime: ContainerRuntime;
  git: Git;
  images: ImageStore;
  folder: WorkFolder;
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
const removeMs = 30_000;
const keptLines = 8;
const maxTailChars = 1500;
/** Lines of the engine between the steps; they never have the reason of a failure. */
const engineNote = /^( ---> |Removing intermediate container )/;

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
  const source = { url: spec.repository_url, branch: spec.branch, commit: spec.commit, withinMs };
  const { commit, message, committedAt } = await deps.git.checkout(source, folder.path, signal);
  line(`Checked out ${commit} ${message}`);
  checkedOut({ commit, commitMessage: message });
  const root = await realpath(join(folder.path, 'tree'));
  const context = await findContext(root, spec.build_context);
  const written = await findDockerfile(root, context, spec.dockerfile_path);
  const owner = { tenant: item.tenant, project: item.project_id, workload: item.workload_id };
  const ofProject = {
    [labels.server]: deps.server,
    [labels.tenant]: item.tenant,
    [labels.project]: item.project_id,
  };
  // The same for all builds of the project: a label that differs would keep them from sharing their steps. Stages that
  // begin with the same image must differ: the cache finds only the later one of two steps that are the same.
  const labelsOf = (stage: number): string =>
    labelLine({ ...ofProject, [labels.type]: stageType, [labels.stage]: String(stage) });
  const dockerfile = await judgedDockerfile(written, { spec, owner, labelsOf, images: deps.images, line, at }, signal);
  const given = {
    ...ofProject,
    [labels.workload]: item.workload_id,
    [labels.assignment]: item.id,
    [labels.type]: 'build',
    'org.opencontainers.image.revision': commit,
  };
  await using network = await ownNetwork(item.id, deps, signal);
  const options = {
    context: contextArchive(
      {
        folder: context,
        dockerfile: Buffer.from(`${dockerfile}${labelLine(given)}\n`, 'latin1'),
        ignore: await readIgnoreFile(context),
        modifiedAt: committedAt,
      },
      signal,
    ),
    dockerfile: dockerfileName,
    tag: spec.image,
    buildArgs: spec.build_args,
    labels: {},
    cacheFrom: await deps.images.builtFor(owner, signal),
    network: network.name,
  };
  const last: string[] = [];
  const stepsOf = buildSteps(at);
  const keep = (text: string): void => {
    line(text);
    stepsOf(text);
    const plain = stripVTControlCharacters(text);
    if (plain.trim() === '' || engineNote.test(plain)) return;
    last.push(plain);
    if (last.length > keptLines) last.shift();
  };
  at({ step: 'uploading' });
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

/** Makes a network for this build alone. If a crash leaves it behind, the housekeeping removes it. */
async function ownNetwork(
  id: string,
  { runtime, server }: BuildDeps,
  signal: AbortSignal,
): Promise<{ name: string } & AsyncDisposable> {
  const name = buildNetwork(id);
  await runtime.ensureNetwork(name, { [labels.server]: server }, signal);
  return {
    name,
    async [Symbol.asyncDispose]() {
      // If the network is in use or the engine does not answer, the housekeeping removes it later.
      await runtime.removeNetwork(name, AbortSignal.timeout(removeMs)).catch(() => undefined);
    },
  };
}

/** Returns the Dockerfile for the builder, once it is checked that the project may use all images in it. */
async function judgedDockerfile(
  written: Buffer,
  it: { spec: TaskSpec<'build'>; owner: ImageOwner; labelsOf: (stage: number) => string; images: ImageStore } & Pick<
    BuildProgress,
    'line' | 'at'
  >,
  signal: AbortSignal,
): Promise<string> {
  const { text, images } = readDockerfile(written, it.spec.build_args, it.labelsOf);
  for (const [done, used] of images.entries()) {
    it.at({ step: 'resolving', done, total: images.length, unit: 'images' });
    it.line(`Looks for image ${used.reference}`);
    const found = await it.images.resolve({ reference: used.reference, owner: it.owner }, signal);
    if (used.before !== undefined) judgeTriggers(used, found.onBuild);
  }
  return text;
}

/** Makes one instruction for all labels: the engine makes a layer for each label that is not in the Dockerfile. */
function labelLine(given: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(given).map(([name, value]) => {
    if (!/^[A-Za-z0-9_.-]+$/.test(value)) throw new TypeError(`Not a plain word for label ${name}`);
    return `${name}=${value}`;
  });
  return `LABEL ${pairs.join(' ')}`;
}

async function findContext(root: string, path: string): Promise<string> {
  const context = await containedPath(root, path);
  if (context !== undefined && (await lstat(context)).isDirectory()) return context;
  throw new RuntimeFailure('invalid_source', `The repository has no folder ${path} to build in`, { retryable: false });
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
