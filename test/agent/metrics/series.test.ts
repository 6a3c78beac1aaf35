import { mkdtemp, open, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { meanOf, meanForm, readSeries, sampleForm, Series, seriesBytes } from '../../../agent/metrics/series.ts';
import { stepOf } from '../../../agent/metrics/ring.ts';
import { failNextOf } from '../../harness/failing-files.ts';

const start = Date.parse('2030-01-01T00:00:02.500Z');
let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-series-'));
  path = join(folder, 'server.ring');
});
afterEach(() => rm(folder, { recursive: true }));

/** Adds samples every 5 s, with the values that `value` gives. */
async function fill(series: Series, count: number, value: (n: number) => number, from = start): Promise<void> {
  for (let n = 0; n < count; n++) await series.add(from + n * 5000, [value(n)]);
}

const sampleAt = async (series: Series, at: number): Promise<number | undefined> =>
  (await series.read()).samples.get(stepOf(sampleForm, at))?.means[0];

type Step =
  | { does: 'add'; afterMs: number; value: number }
  | { does: 'reopen' }
  | { does: 'damage'; at: number; byte: number };

const steps = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ does: fc.constant('add' as const), afterMs: fc.constant(5000), value: fc.nat(1000) }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        does: fc.constant('add' as const),
        // The clock goes on, stands still, goes back, or jumps by years.
        afterMs: fc.oneof(fc.integer({ min: -4_000_000, max: 8_000_000 }), fc.constantFrom(-3e11, 3e11, 0)),
        value: fc.nat(1000),
      }),
    },
    { weight: 1, arbitrary: fc.record({ does: fc.constant('reopen' as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        does: fc.constant('damage' as const),
        at: fc.nat(seriesBytes - 1),
        byte: fc.nat(255),
      }),
    },
  ),
  { maxLength: 60 },
);

/** An hour later, and a moment back: the oldest sample had given its place. */
const backAtTheEnd: Step[] = [0, 5000, 3_592_500, 5000, -1].map((afterMs) => ({ does: 'add', afterMs, value: 0 }));

/** More than an hour later, and back to less: the oldest sample has kept its place. */
const backIntoTheHour: Step[] = [5000, 3_602_500, -5001].map((afterMs) => ({ does: 'add', afterMs, value: 0 }));

test('whatever the clock and the disk do, each sample is what was measured at its time, or missing', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all: Step[]) => {
      await rm(path, { force: true });
      let { series } = await Series.open(path);
      await using _ = { [Symbol.asyncDispose]: () => series[Symbol.asyncDispose]() };
      const measured = new Map<number, number>();
      let now = start;
      let wasDamaged = false;
      for (const step of all) {
        if (step.does === 'add') {
          now += step.afterMs;
          const number = stepOf(sampleForm, now);
          // What is later is not so any more, and a sample gives its place to the next one whose place is the same.
          for (const one of measured.keys())
            if (one > number || (one - number) % sampleForm.slots === 0) measured.delete(one);
          measured.set(number, step.value);
          await series.add(now, [step.value]);
          continue;
        }
        await series[Symbol.asyncDispose]();
        if (step.does === 'damage' && all.some(({ does }) => does === 'add')) {
          await using file = await open(path, 'r+').catch(() => undefined);
          await file?.write(Buffer.from([step.byte]), 0, 1, step.at);
          wasDamaged = true;
        }
        ({ series } = await Series.open(path));
      }
      const { samples } = await series.read();
      const last = stepOf(sampleForm, now);
      for (let step = last - sampleForm.slots + 1; step <= last; step++) {
        const found = samples.get(step)?.means[0];
        if (found !== undefined || !wasDamaged) expect(found).toBe(measured.get(step));
      }
      // Nothing lies in the future, where a later gap would show it.
      expect(samples.last ?? 0).toBeLessThanOrEqual(wasDamaged ? Infinity : last);
    }),
    { numRuns: 60, examples: [[backAtTheEnd], [backIntoTheHour]] },
  );
});

test('means and maxima of five minutes are those of their samples, also after a restart', async () => {
  const first = await Series.open(path);
  await fill(first.series, 3 * 60 + 1, (n) => n);
  await first.series[Symbol.asyncDispose]();
  const { series, damage } = await Series.open(path);
  expect(damage).toBeUndefined();
  const bucket = stepOf(meanForm, start);
  const { means } = await series.read();
  expect(means.get(bucket)).toMatchObject({ count: 60 });
  expect([bucket, bucket + 1, bucket + 2].map((it) => [means.get(it)?.means[0], means.get(it)?.maxima[0]])).toEqual([
    [29.5, 59],
    [89.5, 119],
    [149.5, 179],
  ]);
  await series[Symbol.asyncDispose]();
});

test('the means of a time before a long pause are stored with the first sample after it', async () => {
  const first = await Series.open(path);
  await fill(first.series, 30, () => 7);
  await first.series[Symbol.asyncDispose]();
  const second = await Series.open(path);
  const later = start + 3 * 3_600_000;
  await fill(second.series, 720, () => 1, later);
  const rings = await second.series.read();
  expect(meanOf(rings, stepOf(meanForm, start))).toMatchObject({ count: 30 });
  expect(meanOf(rings, stepOf(meanForm, start))?.means[0]).toBe(7);
  await second.series[Symbol.asyncDispose]();
});

test('a value that was not measured is missing, and does not lower the mean', async () => {
  const { series } = await Series.open(path);
  for (let n = 0; n < 61; n++) await series.add(start + n * 5000, [n % 2 === 0 ? 10 : Number.NaN, Number.NaN]);
  const mean = meanOf(await series.read(), stepOf(meanForm, start));
  expect(mean?.means[0]).toBe(10);
  expect(mean?.means[1]).toBeNaN();
  await series[Symbol.asyncDispose]();
});

test('a file never grows', async () => {
  const { series } = await Series.open(path);
  await series.add(start, [1]);
  expect((await stat(path)).size).toBe(seriesBytes);
  await fill(series, 800, (n) => n, start + 5000);
  expect((await stat(path)).size).toBe(seriesBytes);
  await series[Symbol.asyncDispose]();
});

test.each([
  ['is of another form', () => writeFile(path, Buffer.alloc(seriesBytes, 1))],
  ['is cut off', () => truncate(path, seriesBytes - 1)],
])('a file that %s begins anew, and that is reported', async (_, damageIt) => {
  const first = await Series.open(path);
  await fill(first.series, 3, () => 5);
  await first.series[Symbol.asyncDispose]();
  await damageIt();
  expect(await readSeries(path)).toBeUndefined();
  const { series, damage } = await Series.open(path);
  expect(damage).toBe('the whole file');
  await series.add(start + 60_000, [6]);
  expect(await sampleAt(series, start)).toBeUndefined();
  await series[Symbol.asyncDispose]();
  expect((await readSeries(path))?.samples.get(stepOf(sampleForm, start + 60_000))?.means[0]).toBe(6);
});

test('samples that a full disk refuses are kept in memory, and written when it takes them', async () => {
  const { series } = await Series.open(path);
  await series.add(start, [1]);
  for (let n = 1; n < 70; n++) {
    await failNextOf('write');
    await expect(series.add(start + n * 5000, [n])).rejects.toThrow(`Cannot write ${path}`);
  }
  expect(await sampleAt(series, start + 30 * 5000)).toBe(30);
  await series.add(start + 70 * 5000, [70]);
  await series[Symbol.asyncDispose]();
  const stored = await readSeries(path);
  expect(stored?.samples.get(stepOf(sampleForm, start + 30 * 5000))?.means[0]).toBe(30);
  expect(stored?.means.get(stepOf(meanForm, start))).toMatchObject({ count: 60 });
});
