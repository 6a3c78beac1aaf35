import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MadeVolumes } from '../../../agent/volumes/made-volumes.ts';

const key = Buffer.alloc(32, 7);
let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-volumes-'));
  path = join(dir, 'volumes');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Larger than what a file grows by before it is compacted. */
const large = (name: string): string => name.padEnd(70_000, 'x');

test('two volumes that are made at once are both known, also after a restart', async () => {
  {
    await using made = await MadeVolumes.open(path, key);
    await Promise.all([made.made('a'), made.made('b')]);
    expect(['a', 'b'].map((name) => made.has(name))).toEqual([true, true]);
  }
  await using made = await MadeVolumes.open(path, key);
  expect(['a', 'b'].map((name) => made.has(name))).toEqual([true, true]);
});

test('volumes that are made and removed at once while the file is compacted are known after a restart', async () => {
  const names = [large('a'), large('b'), large('c'), 'd'];
  {
    await using made = await MadeVolumes.open(path, key);
    await made.made(large('old'));
    await Promise.all([made.made('removed'), ...names.map((name) => made.made(name)), made.removed('removed')]);
  }
  await using made = await MadeVolumes.open(path, key);
  expect(names.filter((name) => !made.has(name)).map((name) => name.slice(0, 1))).toEqual([]);
  expect(made.has(large('old'))).toBe(true);
  expect(made.has('removed')).toBe(false);
});

test('a damaged file counts as a file without volumes, and takes those that are found', async () => {
  await writeFile(path, 'damaged');
  {
    await using made = await MadeVolumes.open(path, key);
    expect(made.has('a')).toBe(false);
    await made.made('a');
  }
  await using made = await MadeVolumes.open(path, key);
  expect(made.has('a')).toBe(true);
});
