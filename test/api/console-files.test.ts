import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { consoleFiles } from '../../api/pages/console-files.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-console-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const kept = async (): Promise<string[]> => (await readdir(folder)).map((name) => join(folder, name));

it('bundles the console once for the same sources, and again where what was kept is none', async () => {
  await writeFile(join(folder, 'of-other-sources.json'), '{}');
  const first = await consoleFiles(folder);
  const [path = '', ...others] = await kept();
  expect(others).toEqual([]);
  expect(new Map(Object.entries(JSON.parse(await readFile(path, 'utf8')) as object))).toEqual(first);
  await writeFile(path, JSON.stringify({ 'index.html': 'as it was kept' }));
  expect([...(await consoleFiles(folder))]).toEqual([['index.html', 'as it was kept']]);
  await writeFile(path, '{"index.html":');
  expect(await consoleFiles(folder)).toEqual(first);
});

it('serves the console also where nothing can be kept', async () => {
  await writeFile(join(folder, 'a-file'), '');
  expect((await consoleFiles(join(folder, 'a-file', 'below'))).has('index.html')).toBe(true);
});
