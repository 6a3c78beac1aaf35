import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { join, posix, relative } from 'node:path';
import { generatedPath } from '../../agent-protocol/generated-dockerfile.ts';
import { findContext } from './build-folder.ts';
import type { BuildProgress, BuildSource } from './build-progress.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { StepGuard } from '../ports/step-guard.ts';
import type { Builder, ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { buildByKit } from './build-by-kit.ts';
import { buildClassic } from './build-classic.ts';
import type { Prepared } from './prepared-build.ts';
import { containedPath } from '../disk/contained-path.ts';
import { generatedFor } from './generated-dockerfile.ts';
import type { Checkout, Git } from './git.ts';
import { isCommit } from './git-source.ts';
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
/** Of the context, or at the end of the name of a Dockerfile. */
const ignoreEnding = '.dockerignore';
/** Most paths that a line of the log names. */
const mostNamed = 10;
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
  progress: BuildProgress,
  signal: AbortSignal,
): Promise<BuiltImage> {
  const { spec } = item;
  const { line, checkedOut, at } = progress;
  assertBuildArgs(spec.build_args);
  await using folder = await deps.folder.make();
  if (spec.files !== undefined) return await buildOfFiles(item, spec.files, folder.path, deps, progress, signal);
  at({ step: 'cloning' });
  const named = spec.commit ?? (isCommit(spec.branch) ? spec.branch : undefined);
  line(`Cloning ${spec.repository_url}, ${named === undefined ? `branch ${spec.branch}` : `commit ${named}`}`);
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
  const { commit, message, committedAt, leftOut } = await deps.git.checkout(wanted, folder.path, signal);
  line(`Checked out ${commit} ${message}`);
  for (const text of leftOut === undefined ? [] : notesOf(leftOut)) line(text);
  checkedOut({ commit, commitMessage: message });
  const root = await realpath(join(folder.path, 'tree'));
  const context = await findContext(root, spec.build_context);
  const builder = await deps.runtime.builder(signal);
  const generated =
    spec.dockerfile_path === generatedPath ? await generatedFor(context, spec, builder, line) : undefined;
  const source: BuildSource = { commit, commitMessage: message, ...(generated && { dockerfile: generated.text }) };
  if (generated !== undefined) checkedOut(source);
  const written = await dockerfileOf(root, context, spec, generated?.text);
  const prepared: Prepared = {
    item,
    commit,
    written: written.text,
    isGenerated: generated !== undefined,
    context: {
      folder: context,
      ignore: await readIgnoreFile(context, written.ignore, generated?.ignore),
      ...(written.ignore !== undefined && { hides: [relative(context, written.ignore.path)] }),
      modifiedAt: committedAt,
    },
  };
  return { ...(await made(prepared, builder, deps, { line, at }, signal)), ...source };
}

/** The time of all files that are in no repository, so that equal files give equal archives. */
const noTime = new Date(0);
/** A path below the folder of a build, without anything that leads out of it. */
const plainPath = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}){0,3}$/;

/** Builds files that came with the item. Their hash stands for the commit. */
async function buildOfFiles(
  item: TaskItem<'build'>,
  files: Readonly<Record<string, string>>,
  folder: string,
  deps: BuildDeps,
  { line, at }: BuildProgress,
  signal: AbortSignal,
): Promise<BuiltImage> {
  const { dockerfile_text: dockerfile } = item.spec;
  if (dockerfile === undefined) throw new TypeError('A build of files has no Dockerfile');
  const hash = createHash('sha256').update(dockerfile);
  for (const [path, text] of Object.entries(files)) {
    if (!plainPath.test(path)) {
      const message = `Not the path of a file: ${JSON.stringify(path.slice(0, 200))}`;
      throw new RuntimeFailure('invalid_source', message, { retryable: false });
    }
    hash.update(JSON.stringify([path, text]));
    await mkdir(join(folder, posix.dirname(path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const commit = hash.digest('hex').slice(0, 40);
  const prepared: Prepared = {
    item,
    commit,
    written: Buffer.from(dockerfile, 'utf8'),
    isGenerated: false,
    context: { folder: await realpath(folder), ignore: ignoreFile(''), modifiedAt: noTime },
  };
  const builder = await deps.runtime.builder(signal);
  return { ...(await made(prepared, builder, deps, { line, at }, signal)), commit, commitMessage: '' };
}

async function made(
  prepared: Prepared,
  builder: Builder,
  deps: BuildDeps,
  progress: Pick<BuildProgress, 'line' | 'at'>,
  signal: AbortSignal,
): Promise<Pick<BuiltImage, 'image' | 'digest'>> {
  const built =
    builder.type === 'buildkit'
      ? await buildByKit(prepared, builder, deps, progress, signal)
      : await buildClassic(prepared, builder.platform, deps, progress, signal);
  progress.line(`Built ${prepared.item.spec.image}`);
  return { image: built.id, digest: built.digest };
}

/** A file of the repository that was found below it. */
interface Found {
  path: string;
  size: number;
}

/** What the log says of what a repository names and its files do not have. */
function notesOf({ submodules, pointers }: NonNullable<Checkout['leftOut']>): string[] {
  const notes: string[] = [];
  if (submodules.length > 0)
    notes.push(`Leaves out submodules, whose folders are empty: ${listed(submodules)}. Set submodules to fetch them`);
  if (pointers.length > 0)
    notes.push(
      `Files of Git LFS stay pointers, as what they stand for is not fetched: ${listed(pointers)}. Fetch it in a step of the build, or keep it out of Git LFS`,
    );
  return notes;
}

function listed(paths: readonly string[]): string {
  const shown = paths.slice(0, mostNamed).join(', ');
  return paths.length > mostNamed ? `${shown} and ${paths.length - mostNamed} more` : shown;
}

/** The Dockerfile, and the list of what to ignore that is for it alone. */
async function dockerfileOf(
  root: string,
  context: string,
  { dockerfile_path: path, dockerfile_text: given }: TaskItem<'build'>['spec'],
  generated: string | undefined,
): Promise<{ text: Buffer; ignore?: Found | undefined }> {
  const text = generated ?? given;
  return text === undefined ? findDockerfile(root, context, path) : { text: Buffer.from(text, 'utf8') };
}

/** Finds the Dockerfile by its path in the repository, or else in the build context: users mean either. */
async function findDockerfile(
  root: string,
  context: string,
  path: string,
): Promise<{ text: Buffer; ignore: Found | undefined }> {
  for (const folder of [root, context]) {
    const found = await regularFile(folder, path);
    if (found === undefined) continue;
    if (found.size > maxDockerfileBytes) {
      const message = `${path} is larger than ${maxDockerfileBytes} bytes`;
      throw new RuntimeFailure('invalid_source', message, { retryable: false });
    }
    return { text: await readFile(found.path), ignore: await regularFile(folder, `${path}${ignoreEnding}`) };
  }
  const other = (await inOtherLetters(root, path)) ?? (await inOtherLetters(context, path));
  const hint = other === undefined ? '' : `, but it has ${other}: set dockerfile_path to ${other}`;
  throw new RuntimeFailure('dockerfile_not_found', `The repository has no file ${path}${hint}`, { retryable: false });
}

/** The path of a file whose name differs from that of the path in the case of its letters alone. */
async function inOtherLetters(root: string, path: string): Promise<string | undefined> {
  const folder = await containedPath(root, posix.dirname(path));
  if (folder === undefined || !(await lstat(folder)).isDirectory()) return undefined;
  const wanted = posix.basename(path).toLowerCase();
  const name = (await readdir(folder)).toSorted().find((one) => one.toLowerCase() === wanted);
  const other = name === undefined ? undefined : posix.join(posix.dirname(path), name);
  return other === undefined || (await regularFile(root, other)) === undefined ? undefined : other;
}

/** The ignore file of the Dockerfile, or else of the context, after patterns that it may make exceptions of. */
async function readIgnoreFile(
  context: string,
  own: Found | undefined,
  before: readonly string[] = [],
): Promise<IgnoreFile> {
  const found = own ?? (await regularFile(context, ignoreEnding));
  try {
    if (found !== undefined && found.size > maxIgnoreBytes) throw new RangeError('.dockerignore is too large');
    const text = found === undefined ? '' : await readFile(found.path, 'utf8');
    return ignoreFile([...before, text.replace(/^\uFEFF/, '')].join('\n'));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new RuntimeFailure('invalid_source', error.message, { retryable: false, cause: error });
  }
}

async function regularFile(root: string, path: string): Promise<Found | undefined> {
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
