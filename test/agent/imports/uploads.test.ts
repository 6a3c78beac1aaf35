import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Uploads } from '../../../agent/imports/uploads.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { until } from '../../harness/until.ts';

const gibibyte = 1024 ** 3;
const minute = 60_000;
const hour = 60 * minute;

let folder: string;
let freeBytes: number;
let uploads: Uploads;
/** Milliseconds by which the clock of the agent is ahead of that of the files. */
let passed: number;
const clock: Clock = { ...systemClock, now: () => new Date(Date.now() + passed) };
beforeEach(async () => {
  passed = 0;
  folder = await mkdtemp(join(tmpdir(), 'setpoint-uploads-'));
  freeBytes = 100 * gibibyte;
  uploads = await opened();
});
afterEach(async () => rm(folder, { recursive: true }));

const opened = (): Promise<Uploads> =>
  Uploads.open({ folder, disk: async () => ({ freeBytes, totalBytes: 200 * gibibyte }), clock });

async function send(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { id = crypto.randomUUID(), engine = 'postgres' as const, size = undefined as number | undefined } = {},
  signal = new AbortController().signal,
): Promise<string> {
  const incoming = (async function* () {
    yield* chunks;
  })();
  const params = { kind: 'import' as const, id, engine, ...(size !== undefined && { size_bytes: size }) };
  for await (const _ of uploads.receive(params, incoming, signal));
  return id;
}

async function kept(id: string): Promise<Buffer> {
  await using file = await uploads.file(id);
  return await file.readFile();
}

test('what comes in is on the disk as it came, until it is removed', async () => {
  const id = await send([Buffer.from('SELECT '), Buffer.from('1;')]);
  expect((await kept(id)).toString()).toBe('SELECT 1;');
  await uploads.remove(id);
  await expect(uploads.file(id)).rejects.toThrow('send it again');
});

test('a source that is cut off leaves nothing', async () => {
  const cut = (async function* () {
    yield Buffer.from('SELECT 1;');
    throw new Error('the client is gone');
  })();
  await expect(send(cut)).rejects.toThrow('the client is gone');
  expect(await readdir(folder)).toEqual([]);
});

test('one that is cancelled leaves nothing', async () => {
  const stop = new AbortController();
  const slow = (async function* () {
    yield Buffer.from('SELECT 1;');
    stop.abort(new Error('cancelled'));
    yield Buffer.from('SELECT 2;');
  })();
  await expect(send(slow, {}, stop.signal)).rejects.toThrow('cancelled');
  expect(await readdir(folder)).toEqual([]);
});

const rdb = Buffer.from(`REDIS0012${'x'.repeat(8000)}`);

test.each([
  ['as it is', rdb],
  ['by gzip', gzipSync(rdb)],
  ['by zstd', zstdCompressSync(rdb)],
])('a dump of another engine is refused, compressed %s', async (_, dump) => {
  await expect(send([dump])).rejects.toMatchObject({
    code: 'invalid_dump',
    message: 'The dump cannot be imported: It is a file of Redis, and the database is of postgres',
  });
  expect(await readdir(folder)).toEqual([]);
});

test('a dump of another engine is refused before all of it came', async () => {
  let asked = 0;
  const endless = (async function* () {
    yield rdb;
    for (; asked < 1000; asked += 1) yield Buffer.alloc(64 * 1024);
  })();
  await expect(send(endless)).rejects.toMatchObject({ code: 'invalid_dump' });
  expect(asked).toBeLessThan(10);
});

test('a disk without room is refused before anything is written', async () => {
  freeBytes = 6 * gibibyte;
  await expect(send([Buffer.from('SELECT 1;')], { size: 2 * gibibyte })).rejects.toMatchObject({
    code: 'no_space',
    message: expect.stringContaining(
      'The dump has 2048 MiB, too much for the disk of the server, which has 6144 MiB free',
    ),
  });
  expect(await readdir(folder)).toEqual([]);
});

test('at most four come in at once', async () => {
  const rest = Promise.withResolvers<void>();
  const slow = async function* () {
    yield Buffer.from('SELECT 1;');
    await rest.promise;
  };
  const sending = Array.from({ length: 4 }, () => send(slow()));
  await until('four come in', async () => (await readdir(folder)).length === 4);
  await expect(send([Buffer.from('SELECT 1;')])).rejects.toMatchObject({ code: 'too_many' });
  rest.resolve();
  await Promise.all(sending);
});

test('what no restore reads goes after an hour', async () => {
  const dump = [Buffer.from('SELECT 1;')];
  const [wanted, fresh] = [await send(dump), await send(dump)];
  await send(dump);
  passed = 2 * hour;
  const now = new Date(Date.now() + passed);
  await utimes(join(folder, fresh), now, now);
  await uploads.retain(new Set([wanted]));
  expect((await readdir(folder)).toSorted()).toEqual([wanted, fresh].toSorted());
});

test('what a restore has read for hours stays for an hour, in which another attempt of it may begin', async () => {
  const id = await send([Buffer.from('SELECT 1;')]);
  passed = 3 * hour;
  await uploads.retain(new Set([id]));
  passed += 30 * minute;
  await uploads.retain(new Set());
  expect(await readdir(folder)).toEqual([id]);

  // an agent that was killed meanwhile
  uploads = await opened();
  passed += 45 * minute;
  await uploads.retain(new Set());
  expect(await readdir(folder)).toEqual([id]);
  passed += 16 * minute;
  await uploads.retain(new Set());
  expect(await readdir(folder)).toEqual([]);
});
