import { once } from 'node:events';
import { constants } from 'node:fs';
import { lstat, open, readdir, readlink, realpath } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Pack } from 'tar-stream';
import type { ContextEntry } from '../runtime/build-context.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { isBelow } from './contained-path.ts';
import type { IgnoreEntry, IgnoreFile, IgnoreFolder } from './ignore-file.ts';

/** Name of the Dockerfile in the archive, wherever it is in the repository. */
export const dockerfileName = '.setpoint.dockerfile';
const ignoreName = '.dockerignore';
/** Makes the engine remove both files from the context once it has read them: they are not part of the image. */
const engineIgnore = `${ignoreName}\n${dockerfileName}\n`;

export interface BuildContext {
  /** Real path of the folder whose files are sent. */
  folder: string;
  dockerfile: Buffer;
  ignore: IgnoreFile;
  /** Modification time of all entries, so that equal sources give equal archives. */
  modifiedAt: Date;
}

const maxEntries = 200_000;
const maxBytes = 4 * 1024 ** 3;
const maxDepth = 100;

/**
 * Makes a tar archive of the build context: regular files, folders and symbolic links within it, owned by root, sorted.
 * @throws RuntimeFailure `path_outside_repository` for a link that leaves the context; `invalid_source` if the context
 * is too large, or if its ignore file takes too long to evaluate
 */
export async function* contextArchive(context: BuildContext, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const { pack } = await import('tar-stream'); // an agent that builds nothing does not need it
  const tar = pack();
  const over = new AbortController();
  const filling = fill(tar, context, AbortSignal.any([signal, over.signal])).then(
    () => tar.finalize(),
    (error: unknown) => tar.destroy(error instanceof Error ? error : new Error('The build context failed')),
  );
  try {
    for await (const chunk of tar) yield chunk as Buffer; // a pack has nothing else
  } finally {
    over.abort(new Error('The reader of the build context went away'));
    tar.destroy();
    await filling;
  }
}

async function fill(tar: Pack, context: BuildContext, signal: AbortSignal): Promise<void> {
  const { modifiedAt: mtime } = context;
  tar.entry({ name: dockerfileName, mode: 0o644, mtime }, context.dockerfile);
  tar.entry({ name: ignoreName, mode: 0o644, mtime }, engineIgnore);
  for await (const entry of contextEntries(context, signal)) {
    const { path: name } = entry;
    if (entry.type === 'folder') tar.entry({ name: `${name}/`, type: 'directory', mode: 0o755, mtime });
    else if (entry.type === 'link') tar.entry({ name, type: 'symlink', linkname: entry.target, mtime });
    else await addFile(tar, { name, mode: entry.mode, size: entry.size, mtime }, entry.read(), signal);
  }
}

/**
 * Yields the entries of the build context in the order of a walk: a folder before what is in it, names in the order of
 * their bytes. @throws as {@link contextArchive}
 */
export async function* contextEntries(
  { folder, ignore, modifiedAt }: Omit<BuildContext, 'dockerfile'>,
  signal: AbortSignal,
): AsyncGenerator<ContextEntry> {
  const left = { entries: maxEntries, bytes: maxBytes };
  /** Folders that are ignored themselves, and come only with the first entry in them that is not. */
  const above: { path: string; isTold: boolean }[] = [];

  const spend = (bytes: number): void => {
    left.entries -= 1;
    left.bytes -= bytes;
    if (left.entries < 0) throw tooLarge(`has more than ${maxEntries} entries`);
    if (left.bytes < 0) throw tooLarge(`is larger than ${maxBytes} bytes`);
  };
  const folders = (): ContextEntry[] =>
    above
      .filter(({ isTold }) => !isTold)
      .map((one) => {
        one.isTold = true;
        spend(0);
        return { type: 'folder', path: one.path, modifiedAt };
      });

  async function* walk(below: string, depth: number, known: IgnoreFolder): AsyncGenerator<ContextEntry> {
    if (depth > maxDepth) throw tooLarge(`is deeper than ${maxDepth} folders`);
    const names = (await readdir(join(folder, below))).toSorted((a, b) =>
      Buffer.compare(Buffer.from(a), Buffer.from(b)),
    );
    for (const child of names) {
      signal.throwIfAborted();
      const path = below === '' ? child : `${below}/${child}`;
      const at = join(folder, path);
      const it = await lstat(at);
      if (path === '.git' || path === dockerfileName || path === ignoreName) continue;
      const entry = await ignoring(known, child);
      const { ignored } = entry;
      if (it.isDirectory()) {
        if (entry.isClosed) continue;
        above.push({ path, isTold: false });
        if (!ignored) yield* folders();
        yield* walk(path, depth + 1, entry.below());
        above.pop();
      } else if (ignored) continue;
      else if (it.isSymbolicLink()) {
        yield* folders();
        spend(0);
        yield { type: 'link', path, modifiedAt, target: await containedLink(folder, path) };
      } else if (it.isFile()) {
        yield* folders();
        spend(it.size);
        const mode = (it.mode & 0o111) === 0 ? 0o644 : 0o755;
        yield { type: 'file', path, modifiedAt, mode, size: it.size, read: () => contentOf(at) };
      }
    }
  }
  yield* walk('', 0, ignore.top);
}

/** Reads a file that is no link. */
async function* contentOf(path: string): AsyncGenerator<Uint8Array> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  for await (const chunk of file.createReadStream({ autoClose: false })) yield chunk as Buffer; // no encoding is set
}

async function ignoring(folder: IgnoreFolder, name: string): Promise<IgnoreEntry> {
  try {
    return await folder.entry(name);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new RuntimeFailure('invalid_source', error.message, { retryable: false, cause: error });
  }
}

async function addFile(
  tar: Pack,
  header: { name: string; mode: number; size: number; mtime: Date },
  content: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const written = Promise.withResolvers<void>();
  const entry = tar.entry(header, (error) => (error ? written.reject(error) : written.resolve()));
  for await (const chunk of content) {
    if (!entry.write(chunk)) await once(entry, 'drain', { signal });
  }
  entry.end(null);
  await written.promise;
}

/**
 * Returns the target of the link as it is written. An absolute target counts as outside: it would be resolved on
 * another machine.
 */
async function containedLink(folder: string, name: string): Promise<string> {
  const target = await readlink(join(folder, name));
  const meant = resolve(folder, dirname(name), target);
  const real = await realpath(join(folder, name)).catch(() => meant);
  if (target.startsWith('/') || !isBelow(folder, meant) || !isBelow(folder, real)) {
    const message = `Path outside of the repository: the symbolic link ${name} leads to ${target}`;
    throw new RuntimeFailure('path_outside_repository', message, { retryable: false });
  }
  return target;
}

function tooLarge(how: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', `The build context ${how}`, { retryable: false });
}
