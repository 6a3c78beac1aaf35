import { readFile, stat } from 'node:fs/promises';

const maxFileBytes = 64 * 1024;

/** The text of a small file; `what` it is, such as `private key`. @throws Error if it cannot be read, or is too large */
export async function fileText(file: string, what: string): Promise<string> {
  const { size } = await stat(file).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'there is no such file' : error.message;
    throw new Error(`Cannot read the ${what} ${file}: ${why}`, { cause: error });
  });
  if (size > maxFileBytes) throw new Error(`${file} is no ${what}: it has ${size} bytes`);
  return readFile(file, 'utf8');
}
