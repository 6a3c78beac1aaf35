import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';

const mark = Buffer.from('version https://git-lfs');

/** Those of the files in a checkout that are pointers of Git LFS. */
export async function lfsPointers(tree: string, paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) if (await beginsWithMark(join(tree, path))) found.push(path);
  return found;
}

async function beginsWithMark(path: string): Promise<boolean> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(mark.length), position: 0 });
    return bytesRead === mark.length && buffer.equals(mark);
  } catch {
    return false; // a name that is no text, or the folder of a submodule
  }
}
