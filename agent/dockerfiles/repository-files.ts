import type { z } from 'zod';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** Files of the folder that is built in. Every repository may be hostile: reads are bounded and stay in the folder. */
export interface RepositoryFiles {
  /**
   * The text of a regular file; `undefined` if there is none at that path.
   * @throws RuntimeFailure `invalid_source` if it is too large, `path_outside_repository` for a link that leads out
   */
  text(path: string): Promise<string | undefined>;
  /** As `text`, but only the first {@link maxDeclarationBytes} of a larger file: for lists that may be long. */
  head(path: string): Promise<string | undefined>;
  /** Whether a regular file is at that path. @throws RuntimeFailure `path_outside_repository` */
  has(path: string): Promise<boolean>;
  /** Names in a folder, sorted, those of folders with `/` at their end; none if there is no such folder. */
  names(path: string): Promise<readonly string[]>;
}

/** Largest file that is read to see what a repository declares. */
export const maxDeclarationBytes = 1024 * 1024;

/**
 * Returns what a JSON file declares; `undefined` if there is no such file.
 * @throws RuntimeFailure `invalid_source` if it is not JSON of that form
 */
export async function jsonIn<Schema extends z.ZodType>(
  files: RepositoryFiles,
  path: string,
  schema: Schema,
): Promise<z.infer<Schema> | undefined> {
  const text = await files.text(path);
  return text === undefined ? undefined : declared(path, schema, () => JSON.parse(text) as unknown);
}

/** As {@link jsonIn}, for TOML. */
export async function tomlIn<Schema extends z.ZodType>(
  files: RepositoryFiles,
  path: string,
  schema: Schema,
): Promise<z.infer<Schema> | undefined> {
  const text = await files.text(path);
  if (text === undefined) return undefined;
  const { parse } = await import('smol-toml'); // an agent that builds nothing does not need it
  return declared(path, schema, () => parse(text, { maxDepth: 32 }));
}

function declared<Schema extends z.ZodType>(path: string, schema: Schema, parse: () => unknown): z.infer<Schema> {
  let value: unknown;
  try {
    value = parse();
  } catch (error) {
    throw unusable(`${path} cannot be read: ${firstLine(error)}`);
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw unusable(`${path} has an unusual form at ${issue?.path.join('.').slice(0, 100) ?? 'its top'}`);
}

function firstLine(error: unknown): string {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.slice(0, 200);
}

function unusable(message: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}
