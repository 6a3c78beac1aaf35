import { constants } from 'node:fs';
import type { Dirent } from 'node:fs';
import { lstat, open, readdir, realpath } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import { repositoryLimits } from '../../agent-protocol/messages.ts';
import type { RepositoryFiles } from '../../agent-protocol/messages.ts';
import type { DiskGuard } from '../disk/disk-guard.ts';
import { watchDisk } from '../disk/disk-guard.ts';
import type { Clock } from '../../time/clock.ts';
import { containedPath } from '../disk/contained-path.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { Git } from './git.ts';
import { Turns } from './turns.ts';
import type { WorkFolder } from './work-folder.ts';

/** Below the deadline of the call, so that a repository that does not answer is reported as the cause. */
const withinMs = 35_000;
/** Repositories that are read at the same time. */
const parallelReads = 2;

type File = RepositoryFiles['files'][number];

/**
 * Returns files of a repository at a commit, or at the head of a branch: regular files, none by a link that leaves the
 * repository, and of a bounded size.
 * @throws RuntimeFailure as `Git.checkout`, `path_outside_repository`, `no_space`; `invalid_source` for too many manifests
 */
export type ReadRepository = (
  query: {
    repository_url: string;
    branch: string;
    commit?: string | undefined;
    paths: readonly string[];
    /** Paths that are folders stand for the manifests in them. */
    manifests?: boolean | undefined;
    project_id: string;
    credential?: GitCredential | undefined;
  },
  line: (text: string) => void,
  signal: AbortSignal,
) => Promise<RepositoryFiles>;

export function repositoryFiles(deps: { git: Git; folder: WorkFolder; disk: DiskGuard; clock: Clock }): ReadRepository {
  const turns = new Turns(parallelReads);
  const what = 'read a repository';
  return (query, line, signal) =>
    turns.take(
      query.project_id,
      async () => {
        await deps.disk.check(what);
        using watch = watchDisk(deps.disk, deps.clock, what);
        return await read(deps, query, line, AbortSignal.any([signal, watch.signal]));
      },
      signal,
    );
}

async function read(
  { git, folder }: { git: Git; folder: WorkFolder },
  {
    repository_url: url,
    branch,
    commit: wanted,
    paths,
    manifests = false,
    project_id: project,
    credential,
  }: Parameters<ReadRepository>[0],
  line: (text: string) => void,
  signal: AbortSignal,
): Promise<RepositoryFiles> {
  await using work = await folder.make();
  line(`Reading ${paths.join(', ')} of ${url}, ${wanted === undefined ? `branch ${branch}` : `commit ${wanted}`}`);
  const { commit, message } = await git.checkout(
    { project, url, branch, commit: wanted, credential, withinMs },
    work.path,
    signal,
  );
  line(`Checked out ${commit} ${message}`);
  const root = await realpath(join(work.path, 'tree'));
  const files: File[] = [];
  let left: number = repositoryLimits.bytes;
  for (const path of manifests ? await manifestsIn(root, paths) : paths) {
    const bytes = await contentOf(root, path, Math.min(left, repositoryLimits.fileBytes));
    left -= Buffer.isBuffer(bytes) ? bytes.length : 0;
    const at = manifests ? { path } : {};
    files.push(Buffer.isBuffer(bytes) ? { ...at, content: bytes.toString('base64') } : { ...at, lack: bytes });
  }
  return { commit, commit_message: message, files };
}

/** Most files and folders that are looked through for manifests. */
const maxEntries = 10_000;
/** Longest path, as on the wire. */
const maxPathChars = 255;

/** The paths with each folder replaced by the YAML and JSON files in it, in the order of their names. @throws RuntimeFailure */
async function manifestsIn(root: string, paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  let entries = 0;
  const add = (path: string): void => {
    found.push(path);
    if (found.length > repositoryLimits.files)
      throw invalid(`There are more than ${repositoryLimits.files} YAML and JSON files: name a folder with fewer`);
  };
  const walk = async (folder: string, path: string): Promise<void> => {
    const inside = await readdir(folder, { withFileTypes: true });
    entries += inside.length;
    if (entries > maxEntries)
      throw invalid(`The folder has more than ${maxEntries} files: name one that has only what declares objects`);
    for (const it of inside.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const at = path === '' ? it.name : `${path}/${it.name}`;
      if (it.name.startsWith('.')) continue;
      if (it.isDirectory()) await walk(join(folder, it.name), at);
      else if (/\.(ya?ml|json)$/i.test(it.name)) add(readable(it, at));
    }
  };
  for (const path of paths) {
    const at = await containedPath(root, path);
    if (at !== undefined && (await lstat(at)).isDirectory()) await walk(at, relative(root, at));
    else add(path);
  }
  return found;
}

/** The path of a manifest. One that was left out would count as deleted. @throws RuntimeFailure unless it can be read */
function readable(it: Dirent, at: string): string {
  if (at.length > maxPathChars)
    throw invalid(
      `The path ${at.slice(0, 100)}… is longer than ${maxPathChars} characters: give the file a shorter one`,
    );
  if (it.isSymbolicLink())
    throw invalid(`${at} is a link, and links in a folder are not followed: put the file there, or remove the link`);
  if (!it.isFile()) throw invalid(`${at} is no regular file: remove it, or give it another name`);
  return at;
}

function invalid(message: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}

async function contentOf(
  root: string,
  path: string,
  maxBytes: number,
): Promise<Buffer | 'missing' | 'not_file' | 'too_large'> {
  const found = await containedPath(root, path);
  if (found === undefined) return 'missing';
  const it = await lstat(found);
  if (!it.isFile()) return 'not_file';
  if (it.size > maxBytes) return 'too_large';
  await using file = await open(found, constants.O_RDONLY | constants.O_NOFOLLOW);
  const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(it.size), position: 0 });
  return buffer.subarray(0, bytesRead);
}
