import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const product = [
  'agent',
  'agent-protocol',
  'api',
  'cli',
  'compose',
  'controllers',
  'databases',
  'manifests',
  'network',
  'rules',
  'store',
  'time',
  'web',
];
const users = [...product, 'bench', 'test'];

const imports = /(?:import|export) (?:type )?(?:\{(?<names>[^}]*)\}|\* as \w+|\*) from '(?<from>[^']+)'/g;
const importOfAll = /import\('(?<from>[^']+)'\)/g;
const exported = /^export (?:async )?(?:const|class|function\*?) (?<name>[\w$]+)/gm;

async function textsOf(folders: readonly string[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const folder of folders)
    for (const name of await readdir(join(root, folder), { recursive: true })) {
      const file = join(folder, name);
      if (/\.m?tsx?$/.test(name) && !file.includes('node_modules'))
        texts.set(file, await readFile(join(root, file), 'utf8'));
    }
  return texts;
}

/** The file that an import names; `#rules/` is how the browser names that folder. */
function target(importer: string, from: string): string {
  return from.startsWith('#') ? from.slice(1) : relative(root, resolve(root, dirname(importer), from));
}

/** `FILE NAME` of each import, and `FILE *` for an import of all that a file exports. */
function* importedBy(file: string, text: string): Generator<string> {
  for (const { groups } of text.matchAll(importOfAll)) yield `${target(file, groups?.['from'] ?? '')} *`;
  for (const { groups } of text.matchAll(imports)) {
    const from = target(file, groups?.['from'] ?? '');
    for (const name of groups?.['names']?.split(',') ?? ['*'])
      yield `${from} ${name
        .trim()
        .replace(/^type /, '')
        .replace(/ as .*/, '')}`;
  }
}

test('every function, class and constant that a file exports is imported by another one', async () => {
  const texts = await textsOf(users);
  expect(texts.size).toBeGreaterThan(500);
  const imported = new Set([...texts].flatMap(([file, text]) => [...importedBy(file, text)]));
  const isUsed = (file: string, name: string): boolean => imported.has(`${file} *`) || imported.has(`${file} ${name}`);
  const ours = [...texts].filter(([file]) => product.some((folder) => file.startsWith(`${folder}/`)));
  const all = ours.flatMap(([file, text]) =>
    [...text.matchAll(exported)].map(({ groups }) => ({ file, name: groups?.['name'] ?? '' })),
  );
  expect(all.filter(({ file, name }) => !isUsed(file, name))).toEqual([]);
});
