import { readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Most open files that are looked at. */
const mostFiles = 50_000;

/** A file that a program has open: where its descriptor leads, such as `socket:[4711]`. */
export interface OpenFile {
  pid: number;
  target: string;
}

/**
 * Yields the files that programs have open, up to 50,000 of them. `user`: only of programs of that user. A program that ends
 * meanwhile, or that this one may not look at, has none.
 *
 * @throws the signal's reason
 */
export async function* openFiles(
  signal: AbortSignal,
  { proc = '/proc', user }: { proc?: string; user?: number | undefined } = {},
): AsyncGenerator<OpenFile> {
  let files = 0;
  for (const pid of await readdir(proc)) {
    if (!/^\d+$/.test(pid)) continue;
    signal.throwIfAborted();
    const folder = join(proc, pid, 'fd');
    if (user !== undefined && (await stat(join(proc, pid)).catch(() => undefined))?.uid !== user) continue;
    for (const file of await readdir(folder).catch(() => [])) {
      files += 1;
      if (files > mostFiles) return;
      yield { pid: Number(pid), target: await readlink(join(folder, file)).catch(() => '') };
    }
  }
}
