import {
  appendFile,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LogChunk, LogFollow, LogLine, LogQuery } from '../../../agent-protocol/logs.ts';
import type { LogStore, LogStoreOptions } from '../../../agent/logs/log-store.ts';
import type { Entry } from '../../../agent/logs/record.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';
import { openLogs } from './open-logs.ts';

const workload = '10000000-0000-4000-8000-000000000001';
const other = '10000000-0000-4000-8000-000000000002';
const instance = '20000000-0000-4000-8000-000000000001';
/** Files have the time of the machine. */
const start = Date.now();

let dir: string;
let clock: FakeClock;
let store: LogStore;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-logs-'));
  clock = new FakeClock(new Date(start).toISOString());
  store = await open();
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

function open(changes: Partial<LogStoreOptions> = {}): Promise<LogStore> {
  return openLogs({ folder: dir, clock, ...changes });
}

async function reopen(changes: Partial<LogStoreOptions> = {}): Promise<void> {
  await store[Symbol.asyncDispose]();
  store = await open(changes);
}

function entries(from: number, count: number, changes: Partial<Entry> = {}): Entry[] {
  return Array.from({ length: count }, (_, index) => ({
    at: start + from + index,
    stream: 'stdout' as const,
    level: 'info' as const,
    instance,
    message: `line ${from + index}`,
    ...changes,
  }));
}

async function write(from: number, count: number, changes: Partial<Entry> = {}): Promise<void> {
  await store.append(workload, entries(from, count, changes), new AbortController().signal);
  await store.flushed(workload);
}

function read(query: Partial<LogQuery> = {}) {
  return store.read({ workload_id: workload, tail: 200, ...query }, new AbortController().signal);
}

function messages(lines: readonly LogLine[]): number[] {
  return lines.map(({ message }) => Number(message.replace('line ', '')));
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index);
}

describe('reading', () => {
  test('gives the last lines in order, across segments', async () => {
    await write(1, 500);
    const page = await read({ tail: 250 });
    expect(messages(page.lines)).toEqual(range(251, 501));
    expect(page.lines[0]).toEqual({
      seq: 251,
      timestamp: new Date(start + 251).toISOString(),
      stream: 'stdout',
      level: 'info',
      message: 'line 251',
      instance_id: instance,
    });
    expect((await readdir(join(dir, workload))).length).toBeGreaterThan(5);
  });

  test('pages forward by number until nothing follows', async () => {
    await write(1, 500);
    const seen: number[] = [];
    for (let after: number | undefined = 0; after !== undefined;) {
      const page = await read({ tail: 120, after_seq: after });
      seen.push(...messages(page.lines));
      after = page.next_seq;
    }
    expect(seen).toEqual(range(1, 501));
  });

  test('filters by instance, stream, level, text and time together', async () => {
    await write(1, 100);
    await write(101, 10, { stream: 'stderr', level: 'error', instance: 'other', message: 'Connection REFUSED' });
    await write(111, 100);
    expect((await read({ levels: ['error'] })).lines).toHaveLength(10);
    expect((await read({ search: 'refused', streams: ['stderr'] })).lines).toHaveLength(10);
    expect((await read({ search: 'refused', streams: ['stdout'] })).lines).toHaveLength(0);
    expect((await read({ instance_ids: ['other'] })).lines).toHaveLength(10);
    const since = new Date(start + 50).toISOString();
    const until = new Date(start + 60).toISOString();
    expect(messages((await read({ since, until })).lines)).toEqual(range(50, 61));
    await expect(read({ since: 'yesterday' })).rejects.toThrow(RangeError);
  });

  test('stays within one frame and says where it was cut', async () => {
    await write(1, 200, { message: 'x'.repeat(10_000) });
    const last = await read({ tail: 200 });
    expect(last.truncated).toBe(true);
    expect(JSON.stringify(last).length).toBeLessThan(800_000);
    expect(last.lines.at(-1)?.seq).toBe(200);
    const first = await read({ tail: 200, after_seq: 0 });
    expect(first).toMatchObject({ truncated: true, next_seq: first.lines.length });
  });

  test('of a workload that never wrote gives nothing, and no path is made of its id', async () => {
    expect(await store.read({ workload_id: other, tail: 1 }, new AbortController().signal)).toEqual({
      lines: [],
      truncated: false,
    });
    const escape = store.append('../x', entries(1, 1), new AbortController().signal);
    await expect(escape).rejects.toThrow('Invalid workload id');
  });

  test('finds any line by its number, whatever the sizes of the lines', async () => {
    const length = fc.integer({ min: 0, max: 3_000 });
    await fc.assert(
      fc.asyncProperty(fc.array(length, { minLength: 1, maxLength: 60 }), fc.nat(70), async (lengths, after) => {
        const id = crypto.randomUUID();
        const lines = lengths.map(
          (n, index) => entries(index + 1, 1, { message: `${index + 1} ${'x'.repeat(n)}` })[0]!,
        );
        await store.append(id, lines, new AbortController().signal);
        await store.flushed(id);
        const page = await store.read({ workload_id: id, tail: 5000, after_seq: after }, new AbortController().signal);
        expect(page.lines.map(({ seq }) => seq)).toEqual(range(after + 1, lengths.length + 1));
        expect(page.lines.every(({ seq, message }) => message.startsWith(`${seq} `))).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
});

describe('after a crash', () => {
  test('a half written line is cut off and its number given to the next one', async () => {
    await write(1, 10);
    await store[Symbol.asyncDispose]();
    const [segment] = await readdir(join(dir, workload));
    const path = join(dir, workload, segment!);
    const whole = await readFile(path);
    for (const cut of [1, 5, 20]) {
      await writeFile(path, whole.subarray(0, whole.length - cut));
      store = await open();
      expect(messages((await read()).lines)).toEqual(range(1, 10));
      await write(10, 1);
      expect(await read()).toMatchObject({ lines: { length: 10 } });
      expect((await read()).lines.map(({ seq }) => seq)).toEqual(range(1, 11));
      await store[Symbol.asyncDispose]();
    }
    store = await open();
  });

  test('zeros and scraps at the end are cut off, also long ones', async () => {
    await write(1, 10);
    await store[Symbol.asyncDispose]();
    const [segment] = await readdir(join(dir, workload));
    for (const scrap of ['\0'.repeat(600_000), 'scrap\n', 'scrap\nno end', `\0\n${'\0'.repeat(300_000)}\n`]) {
      await appendFile(join(dir, workload, segment!), scrap);
      store = await open();
      expect((await read()).lines.map(({ seq }) => seq)).toEqual(range(1, 11));
      await store[Symbol.asyncDispose]();
    }
    store = await open();
  });

  test('numbers go on where they were, also when all lines are lost', async () => {
    await write(1, 300);
    await reopen();
    await write(301, 1);
    expect((await read({ tail: 1 })).lines[0]?.seq).toBe(301);
    await store[Symbol.asyncDispose]();
    const names = (await readdir(join(dir, workload))).toSorted();
    await truncate(join(dir, workload, names.at(-1)!), 0);
    store = await open();
    await write(0, 1);
    expect((await read({ tail: 1 })).lines[0]?.seq).toBe(Number.parseInt(names.at(-1)!, 10));
  });
});

describe('retention', () => {
  test('counts in each page the lines that it has removed there', async () => {
    await write(1, 500);
    const folder = join(dir, workload);
    const old = new Date(start - 8 * 86_400_000);
    for (const name of (await readdir(folder)).toSorted().slice(0, 3)) await utimes(join(folder, name), old, old);
    await reopen();
    const first = (await read({ tail: 5000 })).lines[0]!.seq;
    const removed = first - 1;
    const full = { truncated: true, lost_lines: removed - 50, end_seq: first + 9, next_seq: first + 9 };
    expect(await read({ tail: 10, after_seq: 50 })).toMatchObject(full);
    expect(await read({ tail: 10, after_seq: first + 9 })).toMatchObject({ truncated: false, lost_lines: 0 });
    // where lines are searched for, those that do not match are not lost
    const sought = { tail: 10, after_seq: 50, levels: ['error'] };
    expect(await read(sought)).toMatchObject({ lines: [], lost_lines: removed - 50, end_seq: 500 });
    expect(await read({ ...sought, after_seq: 500 })).toMatchObject({ truncated: false, lost_lines: 0, end_seq: 500 });
    await clock.advance(8 * 86_400_000);
    await store.prune();
    const gone = await read({ tail: 10, after_seq: 450 });
    expect(gone).toEqual({ lines: [], truncated: true, lost_lines: 50, end_seq: 500 });
  });

  test('takes away segments that are older than it, and numbers go on', async () => {
    await write(1, 500);
    const folder = join(dir, workload);
    const old = new Date(start - 8 * 86_400_000);
    for (const name of (await readdir(folder)).toSorted().slice(0, 3)) await utimes(join(folder, name), old, old);
    await reopen();
    const first = (await read({ tail: 5000 })).lines[0]!.seq;
    expect(first).toBeGreaterThan(100);
    expect(await read({ tail: 10, after_seq: 0 })).toMatchObject({
      truncated: true,
      lines: [{ seq: first }, ...range(1, 10).map(() => ({}))],
    });
    await clock.advance(8 * 86_400_000);
    await store.prune();
    expect((await read()).lines).toEqual([]);
    await write(0, 1);
    expect((await read()).lines[0]?.seq).toBe(501);
  });

  test('takes nothing away when the wall clock jumps ahead, before the start or after it', async () => {
    await write(1, 10);
    clock.jump(3650 * 86_400_000);
    await store.prune();
    expect((await read()).lines).toHaveLength(10);
    await store.flushed(workload);
    const folder = join(dir, workload);
    const wrote = new Date(start);
    for (const name of await readdir(folder)) await utimes(join(folder, name), wrote, wrote);
    await reopen();
    expect((await read()).lines).toHaveLength(10);
  });

  test('keeps all logs together below their bound, at the cost of the largest', async () => {
    await reopen({ maxBytes: 40_000 });
    await store.append(other, entries(1, 100), new AbortController().signal);
    for (let from = 1; from < 2_000; from += 100) await write(from, 100);
    await store.prune();
    const { total_bytes: total, workloads } = await store.storage();
    expect(total).toBeLessThanOrEqual(40_000);
    expect(workloads.find(({ id }) => id === other)?.lines).toBe(100);
    expect((await read({ tail: 1 })).lines[0]?.message).toBe('line 2000');
  });

  /** Makes the first segments as old as that. */
  async function age(segments: number, days: number): Promise<void> {
    await store[Symbol.asyncDispose]();
    const folder = join(dir, workload);
    const then = new Date(start - days * 86_400_000);
    for (const name of (await readdir(folder)).toSorted().slice(0, segments))
      await utimes(join(folder, name), then, then);
  }

  test('takes away older lines at once when it is made shorter', async () => {
    await write(1, 500);
    await age(3, 5);
    store = await open();
    expect((await read({ tail: 5000 })).lines[0]?.seq).toBe(1);
    await store.retain(4);
    expect((await read({ tail: 5000 })).lines[0]?.seq).toBeGreaterThan(100);
  });

  test('that was set is known at the next start, before the control plane sends it', async () => {
    await write(1, 500);
    await store.retain(30);
    await age(3, 20);
    store = await open();
    expect((await read({ tail: 5000 })).lines[0]?.seq).toBe(1);
    expect((await store.storage()).retention_days).toBe(30);
    await age(0, 0);
    await writeFile(join(dir, 'retention.json'), 'cut of');
    store = await open();
    expect((await store.storage()).retention_days).toBe(7);
  });

  test('that is sent twice at once, as in the welcome and in the settings, is set by the last one', async () => {
    await Promise.all([store.retain(30), store.retain(30), store.retain(20)]);
    store = await open();
    expect((await store.storage()).retention_days).toBe(20);
  });

  test('is sent with what the logs take', async () => {
    await write(1, 100);
    const storage = await store.storage();
    expect(storage).toMatchObject({
      retention_days: 7,
      oldest_at: new Date(start + 1).toISOString(),
      workloads: [{ id: workload, lines: 100 }],
    });
    expect(storage.total_bytes).toBe(storage.workloads[0]?.bytes);
    await store.retain(1);
    await clock.advance(2 * 86_400_000);
    await store.prune();
    expect(await store.storage()).toEqual({ total_bytes: 0, retention_days: 1, max_bytes: 1e9, workloads: [] });
  });
});

describe('following', () => {
  async function collect(follow: Partial<LogFollow>, until: (lines: LogLine[]) => boolean): Promise<LogLine[]> {
    const stop = new AbortController();
    const lines: LogLine[] = [];
    for await (const chunk of store.follow({ workload_id: workload, tail: 200, ...follow }, () => false, stop.signal)) {
      lines.push(...chunk.lines);
      if (until(lines)) stop.abort();
    }
    return lines;
  }

  test('has an exact seam between what is stored and what is being written', async () => {
    const total = 20_000;
    const writing = (async () => {
      for (let from = 1; from <= total; from += 100) {
        await store.append(workload, entries(from, 100), new AbortController().signal);
        if (from % 700 === 1) await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    const readers = Array.from({ length: 4 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index * 3));
      const lines = await collect({ tail: 50 }, (seen) => seen.at(-1)?.seq === total);
      expect(messages(lines)).toEqual(range(lines[0]!.seq, total + 1));
    });
    const fromStart = collect({ after_seq: 0 }, (seen) => seen.at(-1)?.seq === total);
    await Promise.all([writing, ...readers]);
    expect(messages(await fromStart)).toEqual(range(1, total + 1));
  });

  test('of a workload that has not written yet begins with its first line', async () => {
    const following = collect({ tail: 10 }, (lines) => lines.length === 3);
    await idle();
    await write(1, 3);
    expect(messages(await following)).toEqual([1, 2, 3]);
  });

  test('with a filter passes over what does not match, stored and live', async () => {
    await write(1, 50);
    const following = collect({ tail: 5, levels: ['error'] }, (lines) => lines.length === 2);
    await write(51, 1, { level: 'error' });
    await write(52, 500);
    await write(552, 1, { level: 'error' });
    expect(messages(await following)).toEqual([51, 552]);
  });

  test('counts what retention took away before a slow reader came to it', async () => {
    await write(1, 500);
    const stop = new AbortController();
    const chunks: LogChunk[] = [];
    for await (const chunk of store.follow(
      { workload_id: workload, tail: 0, after_seq: 10 },
      () => false,
      stop.signal,
    )) {
      chunks.push(chunk);
      if (chunks.length === 1) {
        await reopenFolderWithout(3);
      }
      if (chunk.lines.at(-1)?.seq === 500) stop.abort();
    }
    const dropped = chunks.reduce((sum, chunk) => sum + (chunk.dropped ?? 0), 0);
    const lines = chunks.flatMap((chunk) => chunk.lines);
    expect(dropped).toBeGreaterThan(0);
    expect(lines.length + dropped).toBe(490);
    expect(new Set(lines.map(({ seq }) => seq)).size).toBe(lines.length);
  });

  async function reopenFolderWithout(count: number): Promise<void> {
    const folder = join(dir, workload);
    const names = (await readdir(folder)).toSorted();
    const old = new Date(start - 30 * 86_400_000);
    for (const name of names.slice(0, count)) await utimes(join(folder, name), old, old);
    for (const name of names.slice(0, count)) await rm(join(folder, name));
  }

  test('ends with its signal at once, and with an end where no line can follow', async () => {
    await write(1, 5);
    let ended = false;
    const chunks: LogChunk[] = [];
    const reading = (async () => {
      for await (const chunk of store.follow(
        { workload_id: workload, tail: 200 },
        () => ended,
        new AbortController().signal,
      ))
        chunks.push(chunk);
    })();
    await write(6, 5);
    ended = true;
    store.nudge(workload);
    await reading;
    expect(chunks.at(-1)).toEqual({ lines: [], end: true });
    expect(messages(chunks.flatMap(({ lines }) => lines))).toEqual(range(1, 11));
  });
});

/** The disk takes nothing of the workload until the returned function is called. */
async function withoutDisk(): Promise<() => Promise<void>> {
  const folder = join(dir, workload);
  await rename(folder, `${folder}-away`);
  await writeFile(folder, 'no folder: the next segment cannot be made');
  return async () => {
    await rm(folder);
    await rename(`${folder}-away`, folder);
  };
}

/** Lets seconds pass until nothing waits for the disk, at most a minute. */
async function untilFlushed(): Promise<boolean> {
  let done = false;
  const flushed = store.flushed(workload).then(() => (done = true));
  for (let second = 0; second < 60 && !done; second += 1) {
    await idle();
    await clock.advance(1_000);
  }
  return done && flushed;
}

test('whoever waits for lines waits for no disk that takes none', async () => {
  await reopen({ segmentBytes: 500 });
  await write(1, 10);
  const giveBack = await withoutDisk();
  await store.append(workload, entries(11, 100), new AbortController().signal);
  expect(await untilFlushed()).toBe(true);
  await giveBack();
  expect((await read({ tail: 5000 })).lines).toHaveLength(10);
});

test('lines that the disk does not take are counted in their place, and what follows is kept', async () => {
  await reopen({ segmentBytes: 500 });
  await write(1, 10);
  const giveBack = await withoutDisk();
  await store.append(workload, entries(11, 100), new AbortController().signal);
  for (let turn = 0; turn < 2; turn += 1) {
    await idle();
    await clock.advance(1_000);
  }
  await giveBack();
  expect(await untilFlushed()).toBe(true);
  const { lines } = await read({ tail: 5000 });
  const gap = lines.find(({ stream }) => stream === 'system');
  const dropped = Number(/^(\d+) lines were dropped/.exec(gap?.message ?? '')?.[1]);
  expect(dropped).toBeGreaterThan(0);
  expect(lines.length - 1 + dropped).toBe(110);
  expect(lines.map(({ seq }) => seq)).toEqual(range(1, lines.length + 1));
  expect(lines.at(-1)?.message).toBe('line 110');
});

/** Files of the store that this process has open. */
async function openFiles(): Promise<string[]> {
  const names = await readdir('/proc/self/fd');
  const paths = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')));
  return paths.filter((path) => path.startsWith(dir));
}

test('a log that nothing is written to has no file open, and goes on where it was', async () => {
  await write(1, 10);
  expect(await openFiles()).toHaveLength(1);
  await clock.advance(60_000);
  await idle();
  expect(await openFiles()).toEqual([]);
  await write(11, 10);
  expect(await openFiles()).toHaveLength(1);
  expect(messages((await read({ tail: 5000 })).lines)).toEqual(range(1, 21));
  await clock.advance(8 * 86_400_000);
  await store.prune();
  await clock.advance(60_000);
  await idle();
  expect(await openFiles()).toEqual([]);
});

test('many logs, one after another, leave no file open', async () => {
  for (let n = 0; n < 200; n += 1) {
    const id = `${workload.slice(0, -3)}${String(n).padStart(3, '0')}`;
    await store.append(id, entries(1, 1), new AbortController().signal);
    await store.flushed(id);
  }
  await clock.advance(60_000);
  await idle();
  expect(await openFiles()).toEqual([]);
});

test('a log that fills a segment after a pause makes room as one without', async () => {
  await reopen({ maxBytes: 2_000, segmentBytes: 500 });
  for (let from = 1; from <= 100; from += 10) {
    await write(from, 10);
    await clock.advance(60_000);
    await idle();
  }
  expect((await store.storage()).total_bytes).toBeLessThan(3_000);
});

test('an empty log of a workload that is not wanted any more is forgotten', async () => {
  await write(1, 10);
  await store.append(other, entries(1, 10), new AbortController().signal);
  await store.flushed(other);
  await store.forget(new Set([other]));
  expect((await readdir(dir)).toSorted()).toEqual([workload, other]);
  await clock.advance(8 * 86_400_000);
  await store.prune();
  await store.forget(new Set([other]));
  expect(await readdir(dir)).toEqual([other]);
  await store.append(other, entries(11, 1), new AbortController().signal);
  await store.flushed(other);
  const { lines } = await store.read({ workload_id: other, tail: 10 }, new AbortController().signal);
  expect(lines.map(({ seq }) => seq)).toEqual([11]);
});

describe('a log that is followed', () => {
  /** Follows the log from its beginning; `lines` grows. */
  async function follower() {
    const stop = new AbortController();
    const lines: LogLine[] = [];
    const run = async (): Promise<void> => {
      const follow = { workload_id: workload, tail: 1 };
      for await (const chunk of store.follow(follow, () => false, stop.signal)) lines.push(...chunk.lines);
    };
    const over = run();
    await idle();
    return { lines, over, stop: () => stop.abort() };
  }
  const present = { whole: true, more: false, workloads: {} };

  test('gives its reader the first line also after a clean-up', async () => {
    await store.keep(present);
    const { lines, over, stop } = await follower();
    await store.forget(new Set());
    await write(1, 1);
    await idle();
    expect(messages(lines)).toEqual([1]);
    stop();
    await over;
    await clock.advance(2 * 3_600_000);
    await store.forget(new Set());
    expect((await read()).lines).toEqual([]);
  });

  test('ends for its reader when its workload was deleted', async () => {
    await store.keep(present);
    const { over } = await follower();
    await store.keep({ whole: false, more: false, workloads: { [workload]: null } });
    await store.forget(new Set());
    await over;
  });
});

test('what a crash left half written is cut off the file', async () => {
  await write(1, 3);
  const before = (await store.storage()).total_bytes;
  const [name = ''] = await readdir(join(dir, workload));
  await appendFile(join(dir, workload, name), 'x'.repeat(500));
  await reopen();
  expect((await stat(join(dir, workload, name))).size).toBe(before);
});
