import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LogChunk, LogLine, LogQuery, LogsToKeep } from '../../../agent-protocol/logs.ts';
import type { LogStore, LogStoreOptions } from '../../../agent/logs/log-store.ts';
import type { Entry } from '../../../agent/logs/record.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { openLogs } from './open-logs.ts';

const workload = '10000000-0000-4000-8000-000000000001';
const other = '10000000-0000-4000-8000-000000000002';
const service = '20000000-0000-4000-8000-000000000001';
const build = '20000000-0000-4000-8000-000000000002';
const dayMs = 86_400_000;
const never = new AbortController().signal;
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

async function write(count: number, changes: Partial<Entry> = {}, id = workload): Promise<void> {
  const at = clock.now().getTime();
  const entries = Array.from({ length: count }, (_, index) => ({
    at,
    stream: 'stdout' as const,
    level: 'info' as const,
    instance: service,
    message: `line ${index + 1}`,
    ...changes,
  }));
  await store.append(id, entries, never);
  await store.flushed(id);
}

/** A build of so many lines among the output of a service, which fills segments around it. */
async function writeBuild(count: number, instance = build): Promise<void> {
  await write(60);
  for (let n = 0; n < count; n += 10) {
    await write(Math.min(10, count - n), { stream: 'build', instance });
    await write(20);
  }
  await write(1, { stream: 'system', instance, message: 'The Dockerfile failed at step 3' });
  await write(60);
}

function read(query: Partial<LogQuery> = {}) {
  return store.read({ workload_id: workload, tail: 5000, ...query }, never);
}

const ofBuild = { instance_ids: [build], streams: ['build', 'system'] };

/** Reads a log to its end by a stream, from before its first line. */
async function followed(filter: object): Promise<{ lines: LogLine[]; dropped: number }> {
  const chunks: LogChunk[] = [];
  for await (const chunk of store.follow(
    { workload_id: workload, tail: 0, after_seq: 0, ...filter },
    () => true,
    never,
  ))
    chunks.push(chunk);
  return {
    lines: chunks.flatMap(({ lines }) => lines),
    dropped: chunks.reduce((sum, { dropped = 0 }) => sum + dropped, 0),
  };
}

function keep(workloads: LogsToKeep['workloads'], whole = false, more = false): Promise<void> {
  return store.keep({ whole, more, workloads });
}

const since = (ms: number) => ({ builds_since: new Date(ms).toISOString() });

/** All that was written is older than the retention, and went. */
async function age(days: number): Promise<void> {
  await clock.advance(days * dayMs);
  await store.prune();
}

test('the lines of a build stay as long as they are wanted, whatever the retention of the server', async () => {
  await keep({ [workload]: since(start) }, true);
  await writeBuild(45);
  const before = await read(ofBuild);
  expect(before.lines).toHaveLength(46);
  await age(300);
  expect(await read(ofBuild)).toEqual(before);
  expect(await followed(ofBuild)).toEqual({ lines: before.lines, dropped: 0 });
  expect((await read({ streams: ['stdout'] })).lines).toEqual([]);
  expect((await store.storage()).workloads).toEqual([{ id: workload, lines: 46, bytes: expect.any(Number) }]);
  expect((await store.storage()).oldest_at).toBe(new Date(start).toISOString());
  // from any line on, by pages
  const paged: LogLine[] = [];
  for (let after: number | undefined = 0; after !== undefined;) {
    const page = await read({ ...ofBuild, after_seq: after, tail: 7 });
    expect(page.truncated).toBe(false);
    paged.push(...page.lines);
    after = page.next_seq;
  }
  expect(paged).toEqual(before.lines);
});

test('they stay through restarts of the agent that hear nothing of the control plane', async () => {
  await keep({ [workload]: since(start) }, true);
  await writeBuild(45);
  const before = await read(ofBuild);
  await clock.advance(30 * dayMs);
  await reopen();
  await age(30);
  expect(await read(ofBuild)).toEqual(before);
  await write(3);
  await reopen();
  expect(await read(ofBuild)).toEqual(before);
  expect((await read({ streams: ['stdout'] })).lines).toHaveLength(3);
  expect((await read({ after_seq: 0, streams: ['stdout'] })).truncated).toBe(true);
});

test('what could not be written to the disk is written when it comes again', async () => {
  const inTheWay = join(dir, 'kept.json.new');
  await mkdir(inTheWay);
  await expect(keep({ [workload]: since(start) }, true)).rejects.toThrow('kept.json.new');
  await rm(inTheWay, { recursive: true });
  await keep({ [workload]: since(start) }, true);
  await writeBuild(45);
  await reopen();
  await age(10);
  expect((await read(ofBuild)).lines).toHaveLength(46);
});

test('they go when their deployment has left the history', async () => {
  await keep({ [workload]: since(start) }, true);
  await writeBuild(45);
  await age(10);
  const second = start + 10 * dayMs;
  await writeBuild(25, other);
  await age(10);
  expect((await read({ streams: ['build'] })).lines).toHaveLength(70);
  await keep({ [workload]: since(second) });
  const left = (await read({ streams: ['build'] })).lines;
  expect(left).toHaveLength(25);
  expect(new Set(left.map(({ instance_id }) => instance_id))).toEqual(new Set([other]));
  await reopen();
  expect((await read({ streams: ['build'] })).lines).toEqual(left);
  await keep({ [workload]: {} });
  expect((await store.storage()).total_bytes).toBe(0);
});

test('without a word of them lines of builds go with the others', async () => {
  await writeBuild(45);
  await age(10);
  expect((await store.storage()).total_bytes).toBe(0);
  await write(1);
  expect((await followed(ofBuild)).dropped).toBeGreaterThan(45);
});

test('a reader that is behind gets them as well, each once and in order', async () => {
  await keep({ [workload]: since(start) }, true);
  await writeBuild(200);
  const before = (await read(ofBuild)).lines;
  const got: LogLine[] = [];
  const follow = { workload_id: workload, tail: 0, after_seq: 0, ...ofBuild };
  let pages = 0;
  for await (const { lines, dropped } of store.follow(follow, () => true, never)) {
    expect(dropped).toBeUndefined();
    got.push(...lines);
    // each time what it reads changes its place
    if (pages++ === 0) await age(10);
  }
  expect(got).toEqual(before);
  const half = before[100]!.seq;
  const first = await read({ ...ofBuild, after_seq: half, tail: 10 });
  expect(first.lines).toEqual(before.slice(101, 111));
});

test('a bound in bytes holds for them, and a line says what went', async () => {
  await reopen({ keptBytes: 9_000 });
  await keep({ [workload]: since(start), [other]: since(start) }, true);
  await writeBuild(300);
  await write(5, { stream: 'build', instance: build }, other);
  await age(10);
  const { lines, truncated } = await read({ streams: ['build', 'system'] });
  expect(truncated).toBe(false);
  expect((await store.storage()).total_bytes).toBeLessThanOrEqual(9_000);
  expect(lines.at(-1)?.message).toBe('The Dockerfile failed at step 3');
  expect(lines[0]?.message).toMatch(
    /^\d+ lines? (?:was|were) removed, as the logs of builds take more than the server keeps/,
  );
  const gone = lines.map(({ message }) => Number(/^(\d+) lines? (?:was|were) removed/.exec(message)?.[1] ?? 0));
  const shown = lines.filter(({ message }) => message.startsWith('line ')).length;
  expect(gone.reduce((sum, count) => sum + count, 0) + shown).toBe(300);
  // the small one loses nothing to the large one
  expect((await store.read({ workload_id: other, tail: 100 }, never)).lines).toHaveLength(5);
});

test('where all logs reach their bound, output goes before the lines of builds', async () => {
  await reopen({ maxBytes: 20_000, segmentBytes: 2_000, keptBytes: 10_000 });
  await keep({ [workload]: since(start) }, true);
  await writeBuild(45);
  const before = (await read(ofBuild)).lines;
  for (let n = 0; n < 30; n++) await write(20, { message: 'x'.repeat(80) });
  await store.prune();
  expect((await read(ofBuild)).lines).toEqual(before);
  expect((await store.storage()).total_bytes).toBeLessThan(22_000);
});

test('the log of a deleted workload is removed, and no other', async () => {
  await keep({ [workload]: since(start), [other]: {} }, true);
  await writeBuild(45);
  await write(5, {}, other);
  await write(5, {}, 'agent');
  await age(10);
  await write(5, {}, other);
  await store.forget(new Set([workload]));
  expect((await folders()).toSorted()).toEqual([workload, other, 'agent']);
  await keep({ [workload]: null });
  await store.forget(new Set([workload])); // it is still desired
  expect(await folders()).toContain(workload);
  await store.forget(new Set());
  expect((await folders()).toSorted()).toEqual([other, 'agent']);
  await reopen();
  expect((await folders()).toSorted()).toEqual([other, 'agent']);
});

test('one that the whole list lacks is removed once the list is whole, and nothing was written for an hour', async () => {
  await write(5);
  await write(5, {}, other);
  await clock.advance(2 * 3_600_000);
  await store.forget(new Set());
  expect(await folders()).toHaveLength(2); // no list yet
  await keep({ [other]: {} }, true, true);
  await store.forget(new Set());
  expect(await folders()).toHaveLength(2); // half of it
  await write(1);
  await keep({}, false, false);
  await store.forget(new Set());
  expect(await folders()).toHaveLength(2); // it has just been written
  await clock.advance(2 * 3_600_000);
  await store.forget(new Set());
  expect(await folders()).toEqual([other]);
});

async function folders(): Promise<string[]> {
  return (await readdir(dir)).filter((name) => !name.endsWith('.json'));
}
