import { expect, test } from 'vitest';
import { cronWords, nextFirings } from '../../web/parts/cron-times.ts';

const at = (text: string): Date => new Date(text);
const instants = (expression: string, zone: string, from: string): string[] => {
  const reading = nextFirings(expression, zone, at(from));
  return 'firings' in reading ? reading.firings.map((one) => one.at.toISOString()) : [reading.error];
};

test('the next five firings are those of the zone', () => {
  expect(instants('0 3 * * *', 'Europe/Berlin', '2026-01-10T12:00:00Z')).toEqual([
    '2026-01-11T02:00:00.000Z',
    '2026-01-12T02:00:00.000Z',
    '2026-01-13T02:00:00.000Z',
    '2026-01-14T02:00:00.000Z',
    '2026-01-15T02:00:00.000Z',
  ]);
});

test('days on which the clocks change are marked', () => {
  const reading = nextFirings('0 12 * * *', 'Europe/Berlin', at('2026-03-28T00:00:00Z'));
  expect('firings' in reading && reading.firings.map(({ note }) => note)).toContain(
    'the clock is put forward on this day',
  );
});

test('what is wrong, and what never comes, is refused in words', () => {
  expect(instants('0 3 * *', 'UTC', '2026-01-10T12:00:00Z')[0]).toContain('Five fields');
  expect(instants('0 3 30 2 *', 'UTC', '2026-01-10T12:00:00Z')[0]).toContain('never fires');
  expect(instants('99 3 * * *', 'UTC', '2026-01-10T12:00:00Z')[0]).not.toMatch(/^2026/);
});

test('usual expressions are told in words', () => {
  expect(['*/15 * * * *', '5 * * * *', '30 3 * * *', '0 4 * * 1', '@daily'].map(cronWords)).toEqual([
    'Every 15 minutes',
    'Every hour at minute 5',
    'Every day at 03:30',
    'Every Monday at 04:00',
    'Every day at 00:00',
  ]);
  expect(cronWords('0 4 1-7 * 1')).toBeUndefined();
});
