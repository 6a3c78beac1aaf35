import { link, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { folderUsage } from '../../../agent/runtime/docker/folder-usage.ts';

const signal = (): AbortSignal => AbortSignal.timeout(10_000);
const KiB = 1024;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-usage-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('an empty folder takes nothing, and files of every depth count', async () => {
  expect(await folderUsage(folder, signal())).toBe(0);
  await mkdir(join(folder, 'a/b'), { recursive: true });
  await writeFile(join(folder, 'one'), Buffer.alloc(100 * KiB, 1));
  await writeFile(join(folder, 'a/b/two'), Buffer.alloc(100 * KiB, 1));
  const bytes = await folderUsage(folder, signal());
  expect(bytes).toBeGreaterThanOrEqual(200 * KiB);
  expect(bytes).toBeLessThan(220 * KiB);
});

test('a file with several links counts once, one with holes by what it has, and a link by itself', async () => {
  await writeFile(join(folder, 'one'), Buffer.alloc(300 * KiB, 1));
  for (const name of ['two', 'three']) await link(join(folder, 'one'), join(folder, name));
  await writeFile(join(folder, 'holes'), '');
  await truncate(join(folder, 'holes'), 1024 ** 3);
  await symlink('/usr', join(folder, 'elsewhere'));
  const bytes = await folderUsage(folder, signal());
  expect(bytes).toBeGreaterThanOrEqual(300 * KiB);
  expect(bytes).toBeLessThan(320 * KiB);
});

test('a folder that is not there is an error, and the signal ends the walk', async () => {
  await expect(folderUsage(join(folder, 'absent'), signal())).rejects.toMatchObject({ code: 'ENOENT' });
  await writeFile(join(folder, 'one'), '1');
  await expect(folderUsage(folder, AbortSignal.abort(new Error('Given up')))).rejects.toThrow('Given up');
});
