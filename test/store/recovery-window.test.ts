import { expect, test } from 'vitest';
import { hasGapWithin, recoveryTo, windowsOf } from '../../store/recovery-window.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { segmentAt } from '../../databases/wal.ts';

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
const ms = (minute: number): number => Date.parse(at(minute));
const segment = (position: number): string => segmentAt({ timeline: 1, position });

function archive(until: number | undefined, last: number, gaps: readonly [number, number][] = []) {
  const shown = until === undefined ? {} : { until: at(until), until_segment: segment(last) };
  const found = gaps.map(([after, before]) => ({ after: segment(after), before: segment(before) }));
  const observed = { phase: 'archiving', ...shown, gaps: found };
  return { meta: { id: 'archive' }, desired: {}, observed } as unknown as ReadonlyResource<'wal_archive'>; // what is read of it
}

function base(id: string, stopped: number, first: number, last: number, phase = 'completed') {
  const log = { first_segment: segment(first), last_segment: segment(last), stopped_at: at(stopped) };
  return { meta: { id }, desired: {}, observed: { phase, log } } as unknown as ReadonlyResource<'backup'>; // as above
}
const spans = (...args: Parameters<typeof windowsOf>) => windowsOf(...args).map(({ from, to }) => [from, to]);

test('a window goes from the end of the first base backup to the last instant that is shown', () => {
  expect(spans(archive(60, 100), [base('b', 30, 40, 42), base('a', 10, 5, 6)])).toEqual([[ms(10), ms(60)]]);
});

test.each([
  ['nothing is shown yet', archive(undefined, 0), [base('a', 10, 5, 6)]],
  ['there is no base backup', archive(60, 100), []],
  ['the base backup is not completed', archive(60, 100), [base('a', 10, 5, 6, 'failed')]],
  ['the log that it needs is not all there', archive(60, 100), [base('a', 50, 99, 101)]],
  ['its log has a gap within the base backup', archive(60, 100, [[98, 101]]), [base('a', 50, 98, 100)]],
])('there is no window as %s', (_, one, bases) => {
  expect(windowsOf(one, bases)).toEqual([]);
});

test('a gap cuts a window, and what is before it goes to the last end of a base backup', () => {
  const bases = [base('a', 10, 5, 6), base('b', 20, 20, 21), base('c', 40, 50, 51)];
  expect(spans(archive(60, 100, [[30, 33]]), bases)).toEqual([
    [ms(10), ms(20)],
    [ms(40), ms(60)],
  ]);
  // two gaps, with nothing between them
  const gaps: [number, number][] = [
    [30, 33],
    [35, 37],
  ];
  expect(spans(archive(60, 100, gaps), bases)).toHaveLength(2);
});

test('an instant is recovered to from the newest base backup before it, up to the end of the next one', () => {
  const bases = [base('a', 10, 5, 6), base('b', 30, 40, 42)];
  const windows = windowsOf(archive(60, 100), bases);
  const way = (time: number) => {
    const found = recoveryTo(windows, time);
    return found && [found.backup.meta.id, found.first, found.last];
  };
  expect(way(ms(10))).toEqual(['a', segment(5), segment(42)]);
  expect(way(ms(30) - 1)).toEqual(['a', segment(5), segment(42)]);
  expect(way(ms(30))).toEqual(['b', segment(40), segment(100)]);
  expect(way(ms(60))).toEqual(['b', segment(40), segment(100)]);
  expect(way(ms(10) - 1)).toBeUndefined();
  expect(way(ms(60) + 1)).toBeUndefined();
});

test('a base backup of a server that was put back to an earlier state is part of no way', () => {
  const windows = windowsOf(archive(60, 100), [base('a', 10, 5, 6), base('of earlier state', 61, 20, 21)]);
  expect(windows.map(({ from, to }) => [from, to])).toEqual([[ms(10), ms(60)]]);
  const { backup, last } = recoveryTo(windows, ms(50)) ?? {};
  expect([backup?.meta.id, last]).toEqual(['a', segment(100)]);
});

test('a gap is within a way if one of its segments is missing', () => {
  const one = archive(60, 100, [[30, 33]]);
  const within = (first: number, last: number) => hasGapWithin(one, segment(first), segment(last));
  expect([within(5, 30), within(5, 31), within(32, 40), within(33, 40)]).toEqual([false, true, true, false]);
});
