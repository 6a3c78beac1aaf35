import { once } from 'node:events';
import { constants } from 'node:fs';
import { lstat, open, readdir, readlink, realpath } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Pack } from 'tar-stream';
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
  const { folder, ignore } = context;
  const mtime = context.modifiedAt;
  const left = { entries: maxEntries, bytes: maxBytes };
  tar.entry({ name: dockerfileName, mode: 0o644, mtime }, context.dockerfile);
  tar.entry({ name: ignoreName, mode: 0o644, mtime }, engineIgnore);

  const spend = (bytes: number): void => {
    left.entries -= 1;
    left.bytes -= bytes;
    if (left.entries < 0) throw tooLarge(`has more than ${maxEntries} entries`);
    if (left.bytes < 0) throw tooLarge(`is larger than ${maxBytes} bytes`);
  };

  const walk = async (below: string, depth: number, known: IgnoreFolder): Promise<void> => {
    if (depth > maxDepth) throw tooLarge(`is deeper than ${maxDepth} folders`);
    for (const child of (await readdir(join(folder, below))).toSorted()) {
      signal.throwIfAborted();
      const name = below === '' ? child : `${below}/${child}`;
      const path = join(folder, name);
      const it = await lstat(path);
      if (name === '.git' || name === dockerfileName || name === ignoreName) continue;
      const entry = await ignoring(known, child);
      const { ignored } = entry;
      if (it.isDirectory()) {
        if (entry.isClosed) continue;
        if (!ignored) {
          spend(0);
          tar.entry({ name: `${name}/`, type: 'directory', mode: 0o755, mtime });
        }
        await walk(name, depth + 1, entry.below());
      } else if (ignored) continue;
      else if (it.isSymbolicLink()) {
        spend(0);
        tar.entry({ name, type: 'symlink', linkname: await containedLink(folder, name), mtime });
      } else if (it.isFile()) {
        spend(it.size);
        const mode = (it.mode & 0o111) === 0 ? 0o644 : 0o755;
        await addFile(tar, { name, mode, size: it.size, mtime }, path, signal);
      }
    }
  };
  await walk('', 0, ignore.top);
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
  path: string,
  signal: AbortSignal,
): Promise<void> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  const written = Promise.withResolvers<void>();
  const entry = tar.entry(header, (error) => (error ? written.reject(error) : written.resolve()));
  for await (const chunk of file.createReadStream({ autoClose: false })) {
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
