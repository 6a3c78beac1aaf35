import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';

/** Reads a file; `-` is standard input, which may be a socket and then cannot be opened by name. */
export async function contentOf(file: string): Promise<string> {
  try {
    return await (file === '-' ? text(process.stdin) : readFile(file, 'utf8'));
  } catch (error) {
    throw new Error(`Cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}
