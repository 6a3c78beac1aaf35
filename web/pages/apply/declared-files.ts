import { bytesText } from '../../parts/units.ts';

/** Most bytes of a text that is applied. */
export const mostBytes = 256 * 1024;

interface TextFile {
  readonly name: string;
  readonly size: number;
  text(): Promise<string>;
}

/**
 * The texts of files as one, by their names. It is JSON or YAML, of which a JSON document is one, too. @throws Error if they are
 * more than is applied at once
 */
export async function joinedText(files: readonly TextFile[]): Promise<string> {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes > mostBytes)
    throw new Error(
      `${files.length === 1 ? 'The file has' : 'The files have'} ${bytesText(bytes)}: at most ${bytesText(mostBytes)} are applied at once`,
    );
  const sorted = files.toSorted((a, b) => a.name.localeCompare(b.name));
  const texts = await Promise.all(sorted.map((file) => file.text()));
  return texts.map((text) => text.trimEnd()).join('\n---\n');
}
