import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LogStore } from '../../agent/logs/log-store.ts';
import type { LogStoreOptions } from '../../agent/logs/log-store.ts';
import { systemClock } from '../../time/clock.ts';
import { smallDisk } from '../harness/small-disk.ts';
import type { SmallDisk } from '../harness/small-disk.ts';

const mebibyte = 1024 * 1024;
const workload = '10000000-0000-4000-8000-000000000001';
const { signal } = new AbortController();

let disk: SmallDisk;
beforeAll(async () => {
  disk = await smallDisk(32 * mebibyte);
});
afterAll(() => disk[Symbol.asyncDispose]());

function open(changes: Partial<LogStoreOptions>): Promise<LogStore> {
  return LogStore.open({
    folder: join(disk.path, 'logs'),
    maxBytes: 1e12,
    segmentBytes: 2 * mebibyte,
    retentionDays: 7,
    clock: systemClock,
    log: pino({ level: 'silent' }),
    ...changes,
  });
}

let count = 0;
async function write(store: LogStore, lines: number): Promise<void> {
  const entries = Array.from({ length: lines }, () => ({
    at: Date.now(),
    stream: 'stdout' as const,
    level: 'info' as const,
    instance: 'i',
    message: `${(count += 1)} ${'x'.repeat(1000)}`,
  }));
  await store.append(workload, entries, signal);
  await store.flushed(workload);
}

/** On a file system of its own, which is really full. The tests tell one story. */
it('logs that fill their disk lose their oldest lines, and no new one', async () => {
  await using store = await open({ leastBytes: 8 * mebibyte });
  while (count < 40_000) await write(store, 1_000);
  const { lines } = await store.readServer({ tail: 500 }, signal);
  expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: 500 }, (_, n) => 39_501 + n));
  const { workloads } = await store.storage();
  expect(workloads[0]?.lines).toBeGreaterThan(5_000);
  expect(workloads[0]?.lines).toBeLessThan(30_000);
  const page = await store.readServer({ tail: 1, cursor: `${Date.now() - 3_600_000}-1-${workload}` }, signal);
  expect(page.truncated).toBe(true);
  expect((await store.readServer({ tail: 5000, streams: ['system'] }, signal)).lines).toEqual([]);
}, 120_000);

it('logs on a disk that something else fills keep what is left, count what is lost, and go on', async () => {
  await using store = await open({ leastBytes: 8 * mebibyte });
  await disk.fill();
  // the logs give way until they are small, and what fills the disk takes the room each time
  for (let turn = 0; turn < 15; turn += 1) {
    await write(store, 1_000);
    await disk.free();
    await disk.fill();
  }
  const before = await store.storage();
  expect(before.total_bytes).toBeGreaterThan(4 * mebibyte);
  await disk.free();
  await write(store, 10);
  await expect
    .poll(async () => (await store.readServer({ tail: 1 }, signal)).lines[0]?.message.split(' ')[0], {
      timeout: 10_000,
    })
    .toBe(String(count));
  const told = await store.readServer({ tail: 5000, streams: ['system'] }, signal);
  const dropped = told.lines.reduce(
    (sum, { message }) => sum + Number(/^(\d+) lines? were dropped/.exec(message)?.[1]),
    0,
  );
  expect(dropped).toBeGreaterThan(0);
  const all = before.workloads[0]!.lines;
  expect(all).toBeGreaterThan(1_000);
}, 120_000);

it('lines of builds stay on a disk that output fills, and go last', async () => {
  await using store = await open({ leastBytes: 4 * mebibyte, keptBytes: 1e12 });
  const built = '10000000-0000-4000-8000-000000000002';
  await store.keep({
    whole: true,
    more: false,
    workloads: { [workload]: {}, [built]: { builds_since: new Date().toISOString() } },
  });
  const builds = Array.from({ length: 1_000 }, (_, n) => n);
  for (const n of builds) {
    const head = { at: Date.now(), level: 'info' as const, instance: 'b' };
    await store.append(built, [{ ...head, stream: 'build', message: `step ${n} ${'x'.repeat(1000)}` }], signal);
    await store.append(built, [{ ...head, stream: 'stdout', message: 'y'.repeat(2000) }], signal);
  }
  await store.flushed(built);
  while (count < 120_000) await write(store, 1_000);
  const read = async (stream: string): Promise<number[]> => {
    const page = await store.read({ workload_id: built, tail: 5000, after_seq: 0, streams: [stream] }, signal);
    const rest =
      page.next_seq === undefined
        ? []
        : (await store.read({ workload_id: built, tail: 5000, after_seq: page.next_seq, streams: [stream] }, signal))
            .lines;
    return [...page.lines, ...rest].map(({ message }) => Number(message.split(' ')[1]));
  };
  expect(await read('build')).toEqual(builds);
  expect(await read('stdout')).toEqual([]);
}, 120_000);
