import { expect, test } from 'vitest';
import { everyMinutes, minutesOf, nextRecurrence, recurrenceFault, recurrencesBetween } from '../../time/recurrence.ts';

const at = (text: string): Date => new Date(text);
const every = (minutes: number) => ({ expression: everyMinutes(minutes), timezone: 'UTC' });

test('an interval counts from when it fired last', () => {
  const from = at('2026-01-01T00:07:00Z');
  expect(nextRecurrence(every(90), from)?.toISOString()).toBe('2026-01-01T01:37:00.000Z');
  expect(recurrencesBetween(every(90), from, at('2026-01-01T03:07:00Z')).map((one) => one.toISOString())).toEqual([
    '2026-01-01T01:37:00.000Z',
    '2026-01-01T03:07:00.000Z',
  ]);
  expect(recurrencesBetween(every(90), from, at('2026-01-01T01:36:59Z'))).toEqual([]);
  const many = recurrencesBetween(every(1), from, at('2027-01-01T00:00:00Z'));
  expect([many.length, many[0], many.at(-1)]).toEqual([1000, at('2026-12-31T07:21:00Z'), at('2027-01-01T00:00:00Z')]);
});

test('an expression fires as it always does', () => {
  const rule = { expression: '30 3 * * *', timezone: 'UTC' };
  expect(nextRecurrence(rule, at('2026-01-01T00:00:00Z'))?.toISOString()).toBe('2026-01-01T03:30:00.000Z');
  expect(recurrencesBetween(rule, at('2026-01-01T00:00:00Z'), at('2026-01-02T00:00:00Z'))).toHaveLength(1);
  expect(minutesOf('30 3 * * *')).toBeUndefined();
});

test.each(['@every 0m', '@every 525601m', '@every 5h', '@every', '@every 05m'])('is none: %s', (expression) => {
  expect(minutesOf(expression)).toBeUndefined();
  expect(recurrenceFault({ expression, timezone: 'UTC' }, at('2026-01-01T00:00:00Z'))?.field).toBe('expression');
});

test('the zone of an interval must be one, too', () => {
  expect(recurrenceFault(every(5), at('2026-01-01T00:00:00Z'))).toBeUndefined();
  expect(recurrenceFault({ ...every(5), timezone: 'Mars/Base' }, at('2026-01-01T00:00:00Z'))?.field).toBe('timezone');
});
