import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ServerLogPage, ServerLogQuery } from '../../../agent-protocol/logs.ts';
import type { LogStore, LogStoreOptions } from '../../../agent/logs/log-store.ts';
import type { Entry } from '../../../agent/logs/record.ts';
import { decodeLine, encodeLine } from '../../../agent/logs/record.ts';
import { failNextOf, holdNextWrite } from '../../harness/failing-files.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';
import { openLogs } from './open-logs.ts';

const workloads = ['a', 'b', 'c'].map((last) => `10000000-0000-4000-8000-00000000000${last}`);
const [first = '', second = ''] = workloads;
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
  return openLogs({ folder: dir, clock, segmentBytes: 2_000, ...changes });
}

async function reopen(changes: Partial<LogStoreOptions> = {}): Promise<void> {
  await store[Symbol.asyncDispose]();
  store = await open(changes);
}

async function write(workload: string, lines: readonly (Partial<Entry> & { message: string })[]): Promise<void> {
  const at = clock.now().getTime();
  const entries = lines.map((line) => ({
    at,
    stream: 'stdout' as const,
    level: 'info' as const,
    instance: 'i',
    ...line,
  }));
  await store.append(workload, entries, new AbortController().signal);
  await store.flushed(workload);
}

function read(query: Partial<ServerLogQuery> = {}): Promise<ServerLogPage> {
  return store.readServer({ tail: 200, ...query }, new AbortController().signal);
}

function messages({ lines }: ServerLogPage): string[] {
  return lines.map(({ message }) => message);
}

describe('the lines of all workloads', () => {
  test('are merged in the order of their times, the last ones first asked for', async () => {
    for (let n = 1; n <= 300; n += 1) {
      await clock.advance(10);
      await write(workloads[n % 3] ?? '', [{ message: `line ${n}` }]);
    }
    const page = await read({ tail: 100 });
    expect(messages(page)).toEqual(Array.from({ length: 100 }, (_, index) => `line ${201 + index}`));
    expect(page).toMatchObject({
      more: false,
      truncated: false,
      lines: [{ workload_id: first, seq: 67 }, {}].concat(Array.from({ length: 98 }, () => ({}))),
    });
    expect((await read({ cursor: page.cursor })).lines).toEqual([]);
    expect(messages(await read({ workload_ids: [second], tail: 2 }))).toEqual(['line 295', 'line 298']);
  });

  test('are filtered by instance, stream, level, text and time together', async () => {
    await write(first, [{ message: 'quiet' }, { message: 'Refused', stream: 'stderr', level: 'error', instance: 'x' }]);
    await clock.advance(60_000);
    await write(second, [{ message: 'refused', stream: 'stderr', level: 'error' }]);
    const since = clock.now().toISOString();
    expect(messages(await read({ search: 'REFUSED' }))).toEqual(['Refused', 'refused']);
    expect(messages(await read({ levels: ['error'], instance_ids: ['x'] }))).toEqual(['Refused']);
    expect(messages(await read({ since }))).toEqual(['refused']);
    expect(messages(await read({ since, cursor: '0' }))).toEqual(['refused']);
    expect(messages(await read({ until: new Date(start).toISOString(), streams: ['stdout'] }))).toEqual(['quiet']);
    await expect(read({ since: 'yesterday' })).rejects.toThrow(RangeError);
    await expect(read({ cursor: 'x' })).rejects.toThrow(RangeError);
  });

  test('stay within one frame, and go on where they were cut', async () => {
    for (const workload of workloads)
      await write(
        workload,
        Array.from({ length: 60 }, (_, n) => ({ message: `${n} ${'x'.repeat(10_000)}` })),
      );
    const all: string[] = [];
    let cursor = '0';
    for (let page; page?.more !== false; cursor = page.cursor) {
      page = await read({ cursor, tail: 5000 });
      expect(JSON.stringify(page).length).toBeLessThan(800_000);
      expect(page.lost).toBe(false);
      all.push(...page.lines.map(({ workload_id, seq }) => `${workload_id} ${seq}`));
    }
    expect(new Set(all).size).toBe(180);
    expect(all).toHaveLength(180);
    expect(await read({ tail: 5000 })).toMatchObject({ truncated: true });
  });

  /** What a reader with a cursor goes through. */
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        type: fc.constant('write' as const),
        workload: fc.nat(2),
        count: fc.integer({ min: 1, max: 8 }),
        age: fc.constantFrom(0, 0, 0, 5, 70_000, 4_000_000),
      }),
    },
    { weight: 3, arbitrary: fc.record({ type: fc.constant('pass' as const), ms: fc.constantFrom(0, 1, 50, 9_000) }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('read' as const), tail: fc.integer({ min: 1, max: 12 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('set back' as const), ms: fc.integer({ min: 1, max: 3_600_000 }) }),
    },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('restart' as const) }) },
  );

  test('are each read once by a cursor, also late ones, across restarts and a clock that is set back', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        await reopen();
        await store[Symbol.asyncDispose]();
        await rm(dir, { recursive: true });
        clock = new FakeClock(new Date(start).toISOString());
        store = await open();
        const written: string[] = [];
        const seen: string[] = [];
        let cursor = '0';
        const take = async (tail: number): Promise<boolean> => {
          const page = await read({ cursor, tail });
          expect(page.truncated).toBe(false);
          const times = page.lines.map(({ timestamp }) => timestamp);
          expect(times).toEqual(times.toSorted());
          seen.push(...messages(page));
          ({ cursor } = page);
          return page.more;
        };
        for (const one of steps) {
          if (one.type === 'pass') await clock.advance(one.ms);
          else if (one.type === 'set back') clock.jump(-one.ms);
          else if (one.type === 'restart') await reopen();
          else if (one.type === 'read') await take(one.tail);
          else {
            const lines = Array.from({ length: one.count }, () => {
              const message = `${workloads[one.workload]} ${written.length}`;
              written.push(message);
              return { message, at: clock.now().getTime() - one.age };
            });
            await write(workloads[one.workload] ?? '', lines);
          }
        }
        while (await take(7));
        expect(seen.toSorted()).toEqual(written.toSorted());
      }),
      { numRuns: 25 },
    );
  });

  test('that arrive after a restart are after those that were read, also where the clock was set back meanwhile', async () => {
    await write(second, [{ message: 'before' }]);
    const page = await read({ cursor: '0', tail: 1 });
    expect(messages(page)).toEqual(['before']);
    await reopen();
    clock.jump(-5000);
    // By its name it comes before the workload of the cursor.
    await write(first, [{ message: 'after' }]);
    expect(messages(await read({ cursor: page.cursor, tail: 10 }))).toEqual(['after']);
  });

  test('that are being written while others are read are in the next page', async () => {
    const writing = (async () => {
      for (let n = 0; n < 400; n += 1)
        await store.append(
          workloads[n % 3] ?? '',
          [{ at: clock.now().getTime(), stream: 'stdout', level: 'info', instance: 'i', message: String(n) }],
          new AbortController().signal,
        );
      for (const workload of workloads) await store.flushed(workload);
    })();
    const seen: string[] = [];
    let cursor = '0';
    const take = async (): Promise<void> => {
      for (let page; page?.more !== false;) {
        page = await read({ cursor, tail: 50 });
        ({ cursor } = page);
        seen.push(...messages(page));
      }
    };
    for (let turn = 0; turn < 20; turn += 1) await take();
    await writing;
    await take();
    expect(seen.map(Number).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 400 }, (_, n) => n));
  });

  test('that a slow disk takes late are not passed over by lines that arrived after them', async () => {
    await write(second, [{ message: 'before' }]);
    await clock.advance(10);
    const release = await holdNextWrite();
    const at = clock.now().getTime();
    const entry = { at, stream: 'stdout' as const, level: 'info' as const, instance: 'i', message: 'slow' };
    await store.append(first, [entry], new AbortController().signal);
    await idle();
    await clock.advance(10);
    await write(second, [{ message: 'quick' }]);
    const reading = read({ cursor: '0' });
    await idle();
    release();
    const page = await reading;
    const rest = await read({ cursor: page.cursor });
    expect([...messages(page), ...messages(rest)]).toEqual(['before', 'slow', 'quick']);
  });

  test('that were removed after a cursor are told, and others that were removed before it are not', async () => {
    for (let n = 0; n < 40; n += 1) await write(first, [{ message: `${n} ${'x'.repeat(200)}` }]);
    const { cursor } = await read();
    await clock.advance(8 * 86_400_000);
    await store.prune();
    expect(await read({ cursor })).toMatchObject({ lines: [], truncated: false });
    for (let n = 0; n < 40; n += 1) await write(first, [{ message: `${n} ${'x'.repeat(200)}` }]);
    expect(await read({ cursor })).toMatchObject({ truncated: false });
    await clock.advance(8 * 86_400_000);
    await write(second, [{ message: 'kept' }]);
    await store.prune();
    const after = await read({ cursor });
    expect(messages(after)).toEqual(['kept']);
    expect(after).toMatchObject({ truncated: true, lost: true });
    expect(await read({ cursor: after.cursor })).toMatchObject({ lines: [], truncated: false });
    expect(await read({ cursor: '0' })).toMatchObject({ truncated: false });
  });

  test('have one cursor, whatever the number of workloads', async () => {
    for (let n = 0; n < 100; n += 1)
      await write(`${first.slice(0, -3)}${String(n).padStart(3, '0')}`, [{ message: String(n) }]);
    const page = await read({ tail: 100 });
    expect(page.lines).toHaveLength(100);
    expect(page.cursor.length).toBeLessThan(80);
  });
});

describe('a stored line', () => {
  const entry: Entry = { at: start, stream: 'stderr', level: 'warn', instance: 'i', message: 'a b  c' };

  test('keeps when it arrived', () => {
    for (const late of [0, 1, 86_400_000, 400 * 86_400_000]) {
      const text = encodeLine(7, entry, start + late).slice(0, -1);
      expect(decodeLine(text)).toEqual({ ...entry, seq: 7, arrived: start + late });
    }
    expect(encodeLine(7, entry, start)).toBe(`7 ${start} ew i a b  c\n`);
  });

  test('is read by an earlier release as it was before, which reads its time as a number', () => {
    for (const late of [1, 999, 86_400_000, 400 * 86_400_000, 9_999_999_999_999]) {
      const time = encodeLine(7, entry, start + late).split(' ')[1];
      expect(Number(time)).toBe(start);
    }
  });

  test('of an earlier release arrived at its time', async () => {
    await write(first, [{ message: 'one' }]);
    await store[Symbol.asyncDispose]();
    const [name = ''] = await readdir(join(dir, first));
    const path = join(dir, first, name);
    await writeFile(path, `${await readFile(path, 'utf8')}2 ${start - 50} oi i two\n`);
    store = await open();
    expect(messages(await read())).toEqual(['two', 'one']);
  });
});

describe('a full disk', () => {
  test('takes away the oldest lines of all and keeps the new ones', async () => {
    await reopen({ leastBytes: 0 });
    for (let n = 0; n < 20; n += 1) await write(first, [{ message: `old ${n} ${'x'.repeat(300)}` }]);
    await clock.advance(60_000);
    for (let n = 0; n < 20; n += 1) await write(second, [{ message: `new ${n} ${'x'.repeat(300)}` }]);
    await failNextOf('write');
    await write(second, [{ message: 'the last' }]);
    const { lines } = await read({ tail: 5000 });
    expect(lines.at(-1)?.message).toBe('the last');
    expect(lines.filter(({ workload_id }) => workload_id === second)).toHaveLength(21);
    expect(lines.filter(({ workload_id }) => workload_id === first).length).toBeLessThan(20);
    expect(lines.filter(({ stream }) => stream === 'system')).toEqual([]);
    expect(
      await store.read({ workload_id: first, tail: 10, after_seq: 1 }, new AbortController().signal),
    ).toMatchObject({
      truncated: true,
    });
  });

  test('leaves what is left where the logs are not what fills it, and the lines that it did not take are counted', async () => {
    for (let n = 0; n < 20; n += 1) await write(first, [{ message: `old ${n}` }]);
    await failNextOf('write');
    await store.append(
      second,
      [{ at: start, stream: 'stdout', level: 'info', instance: 'i', message: 'lost' }],
      new AbortController().signal,
    );
    await store.flushed(second);
    await clock.advance(1_000);
    await write(second, [{ message: 'kept' }]);
    expect(messages(await read({ workload_ids: [second] }))).toEqual([
      '1 line was dropped as the disk did not take them',
      'kept',
    ]);
    expect((await read({ workload_ids: [first] })).lines).toHaveLength(20);
  });
});
