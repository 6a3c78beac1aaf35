import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import type { RuntimeFailure } from '../runtime/runtime.ts';
import { filesTooLarge, invalid } from './git-failure.ts';

const watchMs = 500;
const submoduleMode = '160000';
/** Files of fewer or more bytes are no pointers of Git LFS. */
const pointerBytes = { least: 100, most: 200 } as const;
const maxSmall = 5_000;

export interface SizeWatch extends Disposable {
  signal: AbortSignal;
  /** Returns the bytes that were fetched until now. @throws RuntimeFailure as the signal */
  look(): Promise<number>;
}

/**
 * Aborts with `failure` when what is fetched to `folder` exceeds `maxBytes`. `before`: the bytes that were there before.
 */
export function watchSize(
  clock: Clock,
  folder: string,
  { maxBytes, before = 0 }: { maxBytes: number; before?: number },
  failure: () => RuntimeFailure,
): SizeWatch {
  const large = new AbortController();
  let cancel = (): void => undefined;
  let over = false;
  const look = async (): Promise<number> => {
    const size = (await sizeOf(folder)) - before;
    if (size > maxBytes) large.abort(failure());
    return size;
  };
  const goOn = async (): Promise<void> => {
    await look();
    if (!over) cancel = clock.timer(watchMs, () => void goOn());
  };
  void goOn();
  return {
    signal: large.signal,
    async look() {
      const size = await look();
      large.signal.throwIfAborted();
      return size;
    },
    [Symbol.dispose]() {
      over = true;
      cancel();
    },
  };
}

/** Bytes of the files in a folder, without those in folders in it; 0 if it is not there. */
export async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, one) => sum + one, 0);
}

/** What a commit stands for, before its files are written: a few kilobytes of git objects can be any number of files. */
export interface TreeSize {
  files: number;
  bytes: number;
  /** Commits of other repositories that it names, by their paths. */
  submodules: { path: string; commit: string }[];
  /** Paths of files that are as small as a pointer of Git LFS; of very many, the first ones. */
  small: string[];
}

/**
 * Measures a commit by what `git ls-tree -r -l -z` says of it. `all`: what the files of the whole build may have, of which
 * `most` is left.
 * @throws RuntimeFailure `invalid_source` if there are too many files or bytes
 */
export function treeSize(
  url: string,
  listing: string,
  most: { files: number; bytes: number },
  all: { bytes: number },
): TreeSize {
  const size: TreeSize = { files: 0, bytes: 0, submodules: [], small: [] };
  for (const line of listing.split('\0')) {
    const found = /^(\d+) \S+ ([0-9a-f]+) +(\d+|-)\t(.*)$/s.exec(line);
    if (found === null) continue; // what is behind the last file
    const [, mode = '', id = '', bytes, path = ''] = found;
    size.files += 1;
    size.bytes += Number(bytes) || 0;
    const isSmall = mode.startsWith('100') && Number(bytes) >= pointerBytes.least && Number(bytes) <= pointerBytes.most;
    if (isSmall && size.small.length < maxSmall) size.small.push(path);
    if (mode === submoduleMode) size.submodules.push({ path, commit: id });
  }
  if (size.files > most.files) throw invalid(`Repository ${url} has more than ${most.files} files`);
  if (size.bytes > most.bytes) throw filesTooLarge(url, all.bytes);
  return size;
}
