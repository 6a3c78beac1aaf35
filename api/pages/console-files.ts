import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { bundleConsole } from './console-bundle.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/**
 * Beside the program: the files are sent to browsers without a check, so that only users who can write the program itself may
 * write them.
 */
const usualFolder = join(root, '.cache', 'console');
/** What a bundle is made of: the modules and styles, how they are bundled, and the packages. */
const sources = ['web', 'api/pages/console-bundle.ts', 'package-lock.json'];
const Files = z.record(z.string(), z.string());

/**
 * The files of the console by their paths: those that an earlier start bundled of the same sources, or bundled now, which the
 * first page then waits for.
 *
 * @throws Error as `bundleConsole`
 */
export async function consoleFiles(folder = usualFolder): Promise<ReadonlyMap<string, string>> {
  const path = join(folder, `${await digestOfSources()}.json`);
  const known = await readFile(path, 'utf8')
    .then((text) => Files.parse(JSON.parse(text)))
    .catch(() => undefined); // it was not bundled yet, or somebody wrote into it
  if (known !== undefined) return new Map(Object.entries(known));
  const files = await bundleConsole();
  // where it cannot be kept, the next start bundles it again
  await keep(folder, path, JSON.stringify(Object.fromEntries(files))).catch(() => undefined);
  return files;
}

/** Writes a bundle whole or not at all, also where two starts write at the same time, and removes bundles of other sources. */
async function keep(folder: string, path: string, text: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const former = await readdir(folder);
  const part = join(folder, randomUUID());
  await writeFile(part, text);
  await rename(part, path);
  await Promise.all(former.map((name) => rm(join(folder, name), { force: true })));
}

async function digestOfSources(): Promise<string> {
  const hash = createHash('sha256');
  for (const path of (await Promise.all(sources.map(filesOf))).flat().toSorted()) {
    const content = await readFile(join(root, path));
    hash.update(`${path} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

async function filesOf(path: string): Promise<string[]> {
  const entries = await readdir(join(root, path), { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return [path];
  return entries.filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name).slice(root.length));
}
