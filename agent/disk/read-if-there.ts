import { readFile } from 'node:fs/promises';

/** The text of a file; `undefined`: there is none. @throws Error if it cannot be read */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
