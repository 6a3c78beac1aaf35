import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MetricStore } from '../../../agent/metrics/metric-store.ts';
import type { InstanceSample } from '../../../agent/metrics/metric-store.ts';
import { MetricsPage, mostInstances, mostPoints, serverValues } from '../../../agent-protocol/metrics.ts';
import type { MetricsQuery } from '../../../agent-protocol/metrics.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { failNextOf } from '../../harness/failing-files.ts';

const { signal } = new AbortController();
let folder: string;
let clock: FakeClock;
let store: MetricStore;
let logged: { level: number; msg: string }[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-metrics-'));
  clock = new FakeClock('2030-01-01T00:00:02.500Z');
  logged = [];
  store = await openStore();
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

function openStore(): Promise<MetricStore> {
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  return MetricStore.open({ folder, clock, log });
}

const now = (): number => clock.now().getTime();

/** Records samples every 5 s; the processor is busy by the number of the sample. */
async function measure(count: number, instances: (n: number) => InstanceSample[] = () => []): Promise<void> {
  for (let n = 0; n < count; n++) {
    await store.record(now(), { cpu_percent: n % 100, memory_total_bytes: 1000 }, instances(n));
    await clock.advance(5000);
  }
}

const instance = (id: string, cpu: number, workload = 'web'): InstanceSample => ({
  workload,
  instance: id,
  values: { cpu_percent: cpu, memory_used_bytes: 100 },
});

function read(query: Partial<MetricsQuery> = {}): Promise<MetricsPage> {
  return store.read({ since: now() - 3_600_000, until: now(), step_ms: 5000, ...query }, signal);
}

test('the last hour is read in steps of 5 s, and what is older in steps of 5 min, which the answer names', async () => {
  await measure(1500);
  const hour = MetricsPage.parse(await read());
  expect(hour.step_ms).toBe(5000);
  expect(hour.rows.length).toBeGreaterThanOrEqual(719);
  expect(hour.rows.at(-1)?.slice(0, 2)).toEqual([now() - 7500, 99]);
  const older = MetricsPage.parse(await read({ since: now() - 7_500_000 }));
  expect(older.step_ms).toBe(300_000);
  expect(older.rows).toHaveLength(25);
  const [first, second] = older.rows;
  expect(first?.[0]).toBe(Date.parse('2030-01-01T00:00:00Z'));
  // the samples 60 to 99 and 0 to 19: the mean, and after the means the maximum
  expect([second?.[1], second?.[1 + serverValues.length]]).toEqual([(79.5 * 40 + 9.5 * 20) / 60, 99].map(rounded));
});

const rounded = (value: number): number => Math.round(value * 100) / 100;

test('a coarser step has the mean and the maximum of its time', async () => {
  await measure(120);
  const { rows, step_ms } = await read({ step_ms: 60_000 });
  expect(step_ms).toBe(60_000);
  expect([rows[1]?.[1], rows[1]?.[1 + serverValues.length]]).toEqual([17.5, 23]);
});

test('an answer has a bounded number of points, in a step that it names', async () => {
  await measure(3);
  const week = await read({ since: 0 });
  expect(week).toMatchObject({ since: now() - 7 * 24 * 3_600_000, step_ms: 300_000 });
  const long = await read({ since: now() - 3_600_000, step_ms: 5000 });
  expect((long.until - long.since) / long.step_ms).toBeLessThanOrEqual(mostPoints);
});

test('time without samples has no rows, and a value that was not measured is null', async () => {
  await measure(2);
  await clock.advance(60_000);
  await measure(2);
  const { rows } = await read();
  expect(rows).toHaveLength(4);
  expect(rows[2]![0] - rows[1]![0]).toBe(65_000);
  const disk = 1 + serverValues.indexOf('disk_used_bytes');
  expect(rows[0]?.[disk]).toBeNull();
});

test('a workload is the sum of its instances, and each instance can be read by itself', async () => {
  await measure(3, (n) => [instance('a', 10), ...(n === 1 ? [instance('b', 5)] : []), instance('c', 99, 'other')]);
  expect((await read({ workload_id: 'web' })).rows.map((row) => row.slice(1, 3))).toEqual([
    [10, 100],
    [15, 200],
    [10, 100],
  ]);
  expect((await read({ workload_id: 'web', instance_id: 'b' })).rows.map((row) => row[1])).toEqual([5]);
  expect((await read({ workload_id: 'web', instance_id: 'c' })).rows).toEqual([]);
  expect((await read({ workload_id: 'we' })).rows).toEqual([]);
});

test('instances that follow each other within a step of 5 min are not added as if they were there together', async () => {
  await measure(30, () => [instance('a', 10)]);
  await measure(30, () => [instance('b', 10)]);
  const coarse = { workload_id: 'web', step_ms: 300_000, until: Date.parse('2030-01-01T00:05:00Z') };
  expect((await read(coarse)).rows.map((row) => row.slice(1, 3))).toEqual([[10, 100]]);
  expect((await read({ ...coarse, instance_id: 'a' })).rows.map((row) => row.slice(1, 3))).toEqual([[10, 100]]);
  await measure(30); // the engine did not answer for the only one
  await measure(30, () => [instance('b', 10)]);
  expect((await read({ ...coarse, until: now() })).rows.map((row) => row.slice(1, 3))[1]).toEqual([10, 100]);
  await clock.advance(150_000); // the agent is away for half of a step
  await measure(30, () => [instance('b', 10), instance('c', 20)]);
  expect((await read({ ...coarse, until: now() })).rows.map((row) => row[1])).toEqual([10, 10, 30]);
});

test('the newest values of instances are those of the last samples', async () => {
  await measure(2, () => [instance('a', 10)]);
  const { latest } = await read();
  expect(latest).toEqual([
    { workload_id: 'web', instance_id: 'a', values: { cpu_percent: 10, memory_used_bytes: 100 } },
  ]);
  await clock.advance(30_000);
  expect((await read()).latest).toEqual([]);
});

test('the newest values of a workload are the sums over its instances, where all are known', async () => {
  const { values, ...third } = instance('c', 5);
  await measure(1, () => [
    instance('a', 10),
    { ...instance('b', 20), values: { cpu_percent: 20 } },
    { ...third, workload: 'other', values },
  ]);
  expect(store.workloads).toEqual([
    { workload_id: 'web', instances: 2, values: { cpu_percent: 30 } },
    { workload_id: 'other', instances: 1, values: { cpu_percent: 5, memory_used_bytes: 100 } },
  ]);
  expect((await read()).latest?.[0]?.values).toEqual({ cpu_percent: 10, memory_used_bytes: 100 });
  await clock.advance(30_000);
  expect(store.workloads).toEqual([]);
});

test('what was measured is there after a restart, also of an instance that is gone', async () => {
  await measure(3, () => [instance('a', 10)]);
  await store[Symbol.asyncDispose]();
  store = await openStore();
  await measure(3);
  expect((await read()).rows).toHaveLength(6);
  expect((await read({ workload_id: 'web' })).rows).toHaveLength(3);
  expect(logged).toEqual([]);
});

test('a new instance takes the place of the one that is gone for the longest time', async () => {
  for (let n = 0; n < mostInstances; n++) {
    const file = join(folder, `old.${n}.ring`);
    await writeFile(file, '');
    await utimes(file, 1_000_000 + n, 1_000_000 + n);
  }
  await store[Symbol.asyncDispose]();
  store = await openStore();
  await measure(1, () => [instance('a', 1), instance('b', 2)]);
  const files = await readdir(folder);
  expect(files.filter((it) => it !== 'server.ring')).toHaveLength(mostInstances);
  expect(files).toEqual(expect.arrayContaining(['web.a.ring', 'web.b.ring', 'old.2.ring']));
  expect(files).not.toContain('old.0.ring');
  expect(files).not.toContain('old.1.ring');
});

test('more running instances than are kept are reported once, and the first ones are kept', async () => {
  const many = Array.from({ length: mostInstances + 2 }, (_, n) => instance(`i${n}`, 1));
  await measure(2, () => many);
  expect(logged.map(({ msg }) => msg)).toEqual([expect.stringContaining('More instances run on this server')]);
  expect((await read({ workload_id: 'web' })).rows.map((row) => row[1])).toEqual([mostInstances, mostInstances]);
});

test('a disk that refuses writes is reported once, as is its end, and the samples are kept', async () => {
  await measure(1);
  for (let n = 0; n < 3; n++) {
    await failNextOf('write');
    await measure(1);
  }
  await measure(1);
  expect(logged.map(({ msg }) => msg)).toEqual([
    expect.stringContaining('Cannot write metrics'),
    'Metrics are written again',
  ]);
  expect((await read()).rows).toHaveLength(5);
});

test('a folder that cannot be made leaves the samples in memory', async () => {
  await store[Symbol.asyncDispose]();
  await writeFile(join(folder, 'file'), '');
  const log = pino({ level: 'silent' });
  store = await MetricStore.open({ folder: join(folder, 'file', 'metrics'), clock, log });
  await measure(3);
  expect((await read()).rows).toHaveLength(3);
});

test('a damaged file is reported and begins anew', async () => {
  await measure(1);
  await store[Symbol.asyncDispose]();
  await writeFile(join(folder, 'server.ring'), 'damaged');
  store = await openStore();
  await measure(1);
  expect(logged.map(({ msg }) => msg)).toEqual([expect.stringContaining('damaged')]);
  expect((await read()).rows).toHaveLength(1);
});
