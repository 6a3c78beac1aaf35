import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };

/** Its helper functions are in what it bundles. */
const bundler = 'node_modules/rolldown';
const nodePackage = `node_modules/node-${process.platform}-${process.arch}`;
const isLicence = /^(licen[cs]e|copying|notice)(\.(md|txt))?$/i;
const Package = z.object({ name: z.string(), version: z.string() });

/**
 * The licences of what the executables consist of: Node, and the packages that these sources of the bundle are from, by
 * their paths in the checkout at `root`. The same packages give the same text. @throws Error if one has no file with its
 * licence
 */
export async function licencesOf(root: string, sources: readonly string[]): Promise<string> {
  const folders = new Set(sources.flatMap((path) => packageFolder(path) ?? []));
  const parts = await Promise.all([nodePackage, bundler, ...folders].map((it) => licenceOf(join(root, it))));
  const sorted = parts.toSorted((a, b) => (a.title < b.title ? -1 : 1));
  const rule = '='.repeat(80);
  return [
    `The executables of the Setpoint agent ${packageFile.version} (${packageFile.license}) consist of its own sources and of`,
    'what is listed here, with its licence.',
    ...sorted.map(({ title, text }) => `\n${rule}\n${title}\n${rule}\n\n${text}`),
    '',
  ].join('\n');
}

/** The folder of the package that a source is from; `undefined` for the project's own. */
function packageFolder(path: string): string | undefined {
  return /^.*node_modules\/(@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0];
}

async function licenceOf(folder: string): Promise<{ title: string; text: string }> {
  const { name, version } = Package.parse(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')));
  const files = (await readdir(folder)).filter((file) => isLicence.test(file)).toSorted();
  if (files.every((file) => /^notice/i.test(file)))
    throw new Error(
      `The package ${name} ${version} has no file with its licence, and may not be passed on without one`,
    );
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return { title: `${name} ${version}`, text: texts.map((text) => text.trim()).join('\n\n') };
}
