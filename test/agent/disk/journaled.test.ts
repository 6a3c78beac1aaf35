import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import type { Kept } from '../../../agent/disk/journaled.ts';
import { Journaled } from '../../../agent/disk/journaled.ts';
import { failNextOf } from '../../harness/failing-files.ts';

const key = Buffer.alloc(32, 7);
let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-journaled-'));
  path = join(dir, 'file');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const Entry = z.object({ name: z.string(), value: z.string() });
type Entry = z.infer<typeof Entry>;
type Values = Map<string, string>;
const kept: Kept<Values, Entry> = {
  entry: Entry,
  read: (entries) => new Map((entries ?? []).flatMap((it) => (it === undefined ? [] : [[it.name, it.value]]))),
  apply: (values, { name, value }) => values.set(name, value),
  whole: (values) => [...values].map(([name, value]) => ({ name, value })),
};
const opened = (): Promise<Journaled<Values, Entry>> => Journaled.open(path, key, kept);
const set = (values: Journaled<Values, Entry>, name: string, value: string): Promise<void> =>
  values.change(() => ({ name, value }));

async function onDisk(): Promise<Record<string, string>> {
  await using values = await opened();
  return Object.fromEntries(values.state);
}

/** As much as a file grows by before it is compacted. */
const large = 'x'.repeat(70_000);

test('a change is decided for the state that the change before it left', async () => {
  await using values = await opened();
  const next = ({ size }: Values): Entry => ({ name: `${size}`, value: 'a' });
  await Promise.all([values.change(next), values.change(next), values.change(next)]);
  expect([...values.state.keys()]).toEqual(['0', '1', '2']);
});

test('a file does not grow with the number of changes', async () => {
  const value = 'x'.repeat(10_000);
  {
    await using values = await opened();
    await Promise.all(Array.from({ length: 100 }, (_, n) => set(values, `${n % 2}`, value)));
  }
  expect((await stat(path)).size).toBeLessThan(2 * 2 * 10_000 + 80_000);
  expect(await onDisk()).toEqual({ 0: value, 1: value });
});

test('a change that cannot be written changes nothing, and those after it are made', async () => {
  await using values = await opened();
  await set(values, 'a', 'old');
  await failNextOf('datasync');
  const results = await Promise.allSettled([set(values, 'a', 'new'), set(values, 'b', 'next')]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  expect(Object.fromEntries(values.state)).toEqual({ a: 'old', b: 'next' });
  expect(await onDisk()).toEqual({ a: 'old', b: 'next' });
});

test.for([
  { step: 'before it replaces the file', passing: 0 },
  { step: 'after it replaced the file', passing: 1 },
])('a compaction that fails $step loses no change, and is tried again', async ({ passing }) => {
  await using values = await opened();
  await set(values, 'a', 'old');
  await failNextOf('sync', passing);
  await set(values, 'a', large);
  const { ino } = await stat(path);
  await set(values, 'b', 'next');
  expect(await onDisk()).toEqual({ a: large, b: 'next' });
  expect((await stat(path)).ino).not.toBe(ino);
});

test('a file of which it is unknown what is in it is written anew by the next change', async () => {
  await using values = await opened();
  await set(values, 'a', 'old');
  await failNextOf('datasync');
  await failNextOf('truncate');
  await expect(set(values, 'b', 'lost')).rejects.toThrow(`Cannot append to ${path}`);
  await set(values, 'c', 'next');
  expect(await onDisk()).toEqual({ a: 'old', c: 'next' });
});

test('a replaced state is the one of its turn', async () => {
  const last: Kept<Values, Entry> = {
    ...kept,
    apply: (values, { name, value }) => {
      values.clear();
      values.set(name, value);
    },
  };
  {
    await using values = await Journaled.open(path, key, last);
    const joined = (state: Values): Entry => ({ name: 'all', value: [...state.values()].join() });
    await Promise.all([set(values, 'a', 'one'), values.replace(joined), values.change(joined)]);
    expect(Object.fromEntries(values.state)).toEqual({ all: 'one' });
  }
  expect(await onDisk()).toEqual({ all: 'one' });
});

test.for([
  { written: 'the first change', write: (values: Journaled<Values, Entry>) => set(values, 'a', 'new') },
  { written: 'a user that wants the file at once', write: (values: Journaled<Values, Entry>) => values.ensureFile() },
])('a damaged file stays as it is until $written', async ({ write }) => {
  await writeFile(path, 'damaged');
  {
    await using values = await opened();
    expect((await stat(path)).size).toBe('damaged'.length);
    await write(values);
    await set(values, 'b', 'next');
  }
  expect(await onDisk()).toMatchObject({ b: 'next' });
});

test('a file that is there is not written anew', async () => {
  await using values = await opened();
  await set(values, 'a', 'old');
  const { ino } = await stat(path);
  await values.ensureFile();
  expect((await stat(path)).ino).toBe(ino);
});

test('changes before the end are on disk, and a change after it is refused and leaves no file', async () => {
  const values = await opened();
  const before = set(values, 'a', 'old');
  await values[Symbol.asyncDispose]();
  await before;
  await rm(path);
  await expect(set(values, 'b', 'late')).rejects.toThrow(`Cannot append to ${path} after it was closed`);
  await expect(values.replace(() => ({ name: 'b', value: 'late' }))).rejects.toThrow('after it was closed');
  expect(await readdir(dir)).toEqual([]);
});
