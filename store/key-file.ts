import { readFileSync, statSync } from 'node:fs';
import { link, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { syncFolderOf } from './sync-folder.ts';

const Key = z.base64().refine((text) => bytes(text).length === 32, 'A key must have 256 bits');

const KeyFile = z
  .object({ primary: z.string(), keys: z.record(z.string().regex(/^[0-9A-Za-z_-]+$/), Key) })
  .refine(({ primary, keys }) => Object.hasOwn(keys, primary), 'The primary key must be one of the keys');

/** AES-256 keys by their ids; new values are sealed with the primary one. */
export interface KeySet {
  primary: string;
  keys: ReadonlyMap<string, Buffer>;
}

/** A text that changes whenever the file does; `undefined` if there is no file. */
export function keyFileVersion(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat && `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
}

/**
 * Reads the key file; `undefined` if there is none.
 *
 * @throws Error if others than the owner may read or write it, if this user may not read it, or if its content is
 *   malformed.
 */
export function readKeyFile(path: string): KeySet | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return undefined;
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0)
    throw new Error(`Key file must be closed to all but its owner (chmod 600): ${path} has mode ${mode.toString(8)}`);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    const what = `Cannot read the key file (${code}): it must be a file of the user that runs the server: ${path}`;
    throw new Error(what, { cause: error });
  }
  try {
    const { primary, keys } = KeyFile.parse(JSON.parse(text));
    return { primary, keys: new Map(Object.entries(keys).map(([id, key]) => [id, bytes(key)])) };
  } catch {
    // The error beneath may quote the content, and the content is secret.
    throw new Error(`Key file must hold {"primary": id, "keys": {id: 256 bits in base64}}: ${path} does not`);
  }
}

/** Makes the file and its folder, unless another process was faster; in any case the file is whole afterwards. */
export async function createKeyFile(path: string, set: KeySet): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${set.primary}`;
  try {
    await writeNew(draft, set);
    await link(draft, path);
    await syncFolderOf(path);
  } catch (error) {
    if (!isTaken(error)) throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Replaces the file by what `change` makes of its keys. A crash leaves the old file or the new one.
 *
 * @throws Error if another process is changing it: the later one would lose the key of the earlier, and with it
 *   everything that was sealed with that key.
 */
export async function changeKeyFile(path: string, change: (set: KeySet) => KeySet): Promise<KeySet> {
  const draft = `${path}.new`;
  const file = await open(draft, 'wx', 0o600).catch((error: unknown) => {
    if (!isTaken(error)) throw error;
    const what = `Cannot change the key file as another process is at it; if none is, remove ${draft}`;
    throw new Error(what, { cause: error });
  });
  try {
    const before = readKeyFile(path);
    if (!before) throw new Error(`Cannot change the key file as it is gone: ${path}`);
    const after = change(before);
    await file.writeFile(encode(after));
    await file.sync();
    await rename(draft, path);
    return after;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  } finally {
    await file.close();
    await syncFolderOf(path);
  }
}

async function writeNew(path: string, set: KeySet): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(encode(set));
  await file.sync();
}

function encode({ primary, keys }: KeySet): string {
  const encoded = Object.fromEntries([...keys].map(([id, key]) => [id, key.toString('base64')]));
  return `${JSON.stringify({ primary, keys: encoded }, null, 2)}\n`;
}

function bytes(text: string): Buffer {
  return Buffer.from(text, 'base64');
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST';
}
