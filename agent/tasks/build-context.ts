import { once } from 'node:events';
import { constants } from 'node:fs';
import { lstat, open, readdir, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { Pack } from 'tar-stream';
import type { ContextEntry } from '../runtime/build-context.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { isBelow } from '../disk/contained-path.ts';
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
  /** Paths of further files that are no part of the context. */
  hides?: readonly string[];
  /** Modification time of all entries, so that equal sources give equal archives. */
  modifiedAt: Date;
}

const maxEntries = 200_000;
const maxBytes = 4 * 1024 ** 3;
const maxDepth = 100;
/** Most entries that are left out and told. */
const mostTold = 20;

/**
 * Makes a tar archive of the build context: regular files, folders and symbolic links, owned by root, sorted. What the
 * engine would not take is left out, and told by `leftOut`: names that are no text, and links that lead out of the context.
 * @throws RuntimeFailure `invalid_source` if the context is too large, or if its ignore file takes too long to evaluate
 */
export async function* contextArchive(
  context: BuildContext,
  leftOut: (text: string) => void,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { pack } = await import('tar-stream'); // an agent that builds nothing does not need it
  const tar = pack();
  const over = new AbortController();
  const filling = fill(tar, context, leftOut, AbortSignal.any([signal, over.signal])).then(
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

async function fill(
  tar: Pack,
  context: BuildContext,
  leftOut: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { modifiedAt: mtime } = context;
  let untaken = 0;
  tar.entry({ name: dockerfileName, mode: 0o644, mtime }, context.dockerfile);
  tar.entry({ name: ignoreName, mode: 0o644, mtime }, engineIgnore);
  for await (const entry of contextEntries(context, signal)) {
    const { path: name } = entry;
    const why = untakenBecause(entry);
    if (why !== undefined) {
      untaken += 1;
      if (untaken <= mostTold) leftOut(`Leaves out ${name}: ${why}`);
    } else if (entry.type === 'folder') tar.entry({ name: `${name}/`, type: 'directory', mode: 0o755, mtime });
    else if (entry.type === 'link') tar.entry({ name, type: 'symlink', linkname: entry.target, mtime });
    else await addFile(tar, { name, mode: entry.mode, size: entry.size, mtime }, entry.read(), signal);
  }
}

/** Why an engine without BuildKit does not take an entry; `undefined`: it does. */
function untakenBecause(entry: ContextEntry): string | undefined {
  const needsKit = ', which needs an engine with BuildKit';
  if (entry.rawPath !== undefined) return `its name is not UTF-8${needsKit}`;
  if (entry.type !== 'link') return undefined;
  if (entry.rawTarget !== undefined) return `it leads to a name that is not UTF-8${needsKit}`;
  const isOutside =
    !entry.target.startsWith('/') && !isBelow('/c', posix.join('/c', posix.dirname(entry.path), entry.target));
  return isOutside ? `it leads out of the build context, to ${entry.target}` : undefined;
}

/** A name in a file system, which may be no text. */
interface FileName {
  text: string;
  /** As bytes; `undefined`: the text has them all. */
  raw?: Buffer;
}

function nameOf(bytes: Buffer): FileName {
  const text = bytes.toString('utf8');
  return Buffer.from(text, 'utf8').equals(bytes) ? { text } : { text, raw: bytes };
}

/** The path of a name in a folder. */
function pathBelow(folder: FileName, name: FileName): FileName {
  if (folder.text === '') return name;
  const text = `${folder.text}/${name.text}`;
  if (folder.raw === undefined && name.raw === undefined) return { text };
  return { text, raw: Buffer.concat([bytesOf(folder), Buffer.from('/'), bytesOf(name)]) };
}

function bytesOf({ text, raw }: FileName): Buffer {
  return raw ?? Buffer.from(text, 'utf8');
}

/**
 * Yields the entries of the build context in the order of a walk: a folder before what is in it, names in the order of
 * their bytes. No link is followed. @throws as {@link contextArchive}
 */
export async function* contextEntries(
  { folder, ignore, hides = [], modifiedAt }: Omit<BuildContext, 'dockerfile'>,
  signal: AbortSignal,
): AsyncGenerator<ContextEntry> {
  const left = { entries: maxEntries, bytes: maxBytes };
  /** Folders that are ignored themselves, and come only with the first entry in them that is not. */
  const above: { at: FileName; isTold: boolean }[] = [];
  const unseen = new Set(['.git', dockerfileName, ignoreName, ...hides]);

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
        return { type: 'folder', ...named(one.at), modifiedAt };
      });

  async function* walk(below: FileName, depth: number, known: IgnoreFolder): AsyncGenerator<ContextEntry> {
    if (depth > maxDepth) throw tooLarge(`is deeper than ${maxDepth} folders`);
    const names = (await readdir(placeOf(folder, below), { encoding: 'buffer' })).toSorted((a, b) =>
      Buffer.compare(a, b),
    );
    for (const bytes of names) {
      signal.throwIfAborted();
      const child = nameOf(bytes);
      const path = pathBelow(below, child);
      const at = placeOf(folder, path);
      const it = await lstat(at);
      if (unseen.has(path.text)) continue;
      const entry = await ignoring(known, child.text);
      const { ignored } = entry;
      if (it.isDirectory()) {
        if (entry.isClosed) continue;
        above.push({ at: path, isTold: false });
        if (!ignored) yield* folders();
        yield* walk(path, depth + 1, entry.below());
        above.pop();
      } else if (ignored) continue;
      else if (it.isSymbolicLink()) {
        yield* folders();
        spend(0);
        const { text: target, raw } = nameOf(await readlink(at, { encoding: 'buffer' }));
        yield { type: 'link', ...named(path), modifiedAt, target, ...(raw !== undefined && { rawTarget: raw }) };
      } else if (it.isFile()) {
        yield* folders();
        spend(it.size);
        const mode = (it.mode & 0o111) === 0 ? 0o644 : 0o755;
        yield { type: 'file', ...named(path), modifiedAt, mode, size: it.size, read: () => contentOf(at) };
      }
    }
  }
  yield* walk({ text: '' }, 0, ignore.top);
}

function named({ text, raw }: FileName): Pick<ContextEntry, 'path' | 'rawPath'> {
  return { path: text, ...(raw !== undefined && { rawPath: raw }) };
}

function placeOf(folder: string, { text, raw }: FileName): string | Buffer {
  return raw === undefined ? join(folder, text) : Buffer.concat([Buffer.from(`${folder}/`), raw]);
}

/** Reads a file that is no link. */
async function* contentOf(path: string | Buffer): AsyncGenerator<Uint8Array> {
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

function tooLarge(how: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', `The build context ${how}`, { retryable: false });
}
