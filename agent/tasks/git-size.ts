import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import { OutputLimitError } from '../machine/process.ts';
import { invalid } from './git-failure.ts';

const watchMs = 500;
const maxTreeBytes = 4 * 1024 ** 3;

/** Aborts with a RuntimeFailure `invalid_source` when the fetched files in `folder` exceed `maxBytes`. */
export function watchSize(
  clock: Clock,
  folder: string,
  maxBytes: number,
  url: string,
): { signal: AbortSignal } & Disposable {
  const large = new AbortController();
  let cancel = (): void => undefined;
  let over = false;
  const look = async (): Promise<void> => {
    const names = await readdir(folder).catch(() => []);
    const sizes = await Promise.all(
      names.map((name) =>
        stat(join(folder, name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
    );
    const size = sizes.reduce((sum, one) => sum + one, 0);
    if (size > maxBytes) large.abort(invalid(`Repository ${url} is larger than ${maxBytes} bytes`));
    if (!over) cancel = clock.timer(watchMs, () => void look());
  };
  void look();
  return {
    signal: large.signal,
    [Symbol.dispose]() {
      over = true;
      cancel();
    },
  };
}

/**
 * Returns the bytes of all files. Call it before the files are unpacked: a few kilobytes of git objects can stand for
 * any number of files.
 * @throws RuntimeFailure `invalid_source` if there are too many files or bytes
 */
export async function checkSize(url: string, maxFiles: number, list: () => Promise<string>): Promise<number> {
  let files: string[];
  try {
    files = (await list()).split('\0').filter((one) => one !== '');
  } catch (error) {
    if (error instanceof OutputLimitError) throw invalid(`Repository ${url} has too many files`);
    throw error;
  }
  if (files.length > maxFiles) throw invalid(`Repository ${url} has more than ${maxFiles} files`);
  const bytes = files.reduce((sum, one) => sum + (Number(/^\S+ \S+ \S+ +(\d+)\t/.exec(one)?.[1]) || 0), 0);
  if (bytes > maxTreeBytes) throw invalid(`The files of repository ${url} are larger than ${maxTreeBytes} bytes`);
  return bytes;
}
