import { expect, test } from 'vitest';
import { cronFault, instantsBetween, nextInstant } from '../../time/cron.ts';

const at = (text: string): Date => new Date(text);
const berlin = 'Europe/Berlin';

test('a local time that is left out is an hour later, and one that is repeated counts once', () => {
  const nightly = { expression: '30 2 * * *', timezone: berlin };
  const spring = instantsBetween(nightly, at('2026-03-28T12:00:00Z'), at('2026-03-31T12:00:00Z'));
  expect(spring.map((it) => it.toISOString())).toEqual([
    '2026-03-29T01:00:00.000Z',
    '2026-03-30T00:30:00.000Z',
    '2026-03-31T00:30:00.000Z',
  ]);
  const autumn = instantsBetween(nightly, at('2026-10-24T12:00:00Z'), at('2026-10-27T12:00:00Z'));
  expect(autumn.map((it) => it.toISOString())).toEqual([
    '2026-10-25T00:30:00.000Z',
    '2026-10-26T01:30:00.000Z',
    '2026-10-27T01:30:00.000Z',
  ]);
});

test.each([
  ['30 2,14 * * *', ['2026-03-29T01:00', '2026-03-29T12:30'], ['2026-10-25T00:30', '2026-10-25T13:30']],
  ['0 1-2 * * *', ['2026-03-29T00:00', '2026-03-29T01:00'], ['2026-10-24T23:00', '2026-10-25T00:00']],
  ['0,30 2 * * *', ['2026-03-29T01:00'], ['2026-10-25T00:00', '2026-10-25T00:30']],
])('a list or a range of times, %s, leaves none out and has none twice', (expression, spring, autumn) => {
  const rule = { expression, timezone: berlin };
  const of = (from: string, to: string) =>
    instantsBetween(rule, at(from), at(to)).map((it) => it.toISOString().slice(0, 16));
  expect(of('2026-03-28T22:59:00Z', '2026-03-29T21:59:00Z')).toEqual(spring);
  expect(of('2026-10-24T21:59:00Z', '2026-10-25T22:59:00Z')).toEqual(autumn);
});

test('what counts from hour to hour has each of them once over both changes of clocks', () => {
  const hourly = { expression: '0 * * * *', timezone: berlin };
  for (const day of ['2026-03-29', '2026-10-25']) {
    const all = instantsBetween(hourly, at(`${day}T00:00:00Z`), at(`${day}T06:00:00Z`));
    expect(all.map((it) => it.getUTCHours())).toEqual([1, 2, 3, 4, 5, 6]);
  }
});

test('the instant itself is not after it', () => {
  const rule = { expression: '@daily', timezone: 'UTC' };
  expect(nextInstant(rule, at('2026-01-01T00:00:00Z'))?.toISOString()).toBe('2026-01-02T00:00:00.000Z');
  expect(instantsBetween(rule, at('2026-01-01T00:00:00Z'), at('2026-01-01T23:59:59Z'))).toEqual([]);
});

test('instants are counted up to a bound', () => {
  const rule = { expression: '* * * * *', timezone: 'UTC' };
  expect(instantsBetween(rule, at('2026-01-01T00:00:00Z'), at('2027-01-01T00:00:00Z'))).toHaveLength(1000);
});

test.each(['* * * *', '* * * * * *', '60 * * * *', '@reboot', 'never', ''])('%j is told as no expression', (text) => {
  expect(cronFault({ expression: text, timezone: 'UTC' }, at('2026-01-01T00:00:00Z'))?.field).toBe('expression');
});

test('an expression without a day, and a time zone that there is not, are told', () => {
  const now = at('2026-01-01T00:00:00Z');
  expect(cronFault({ expression: '0 0 30 2 *', timezone: 'UTC' }, now)?.message).toContain('never fire');
  expect(cronFault({ expression: '@daily', timezone: 'Mars/Base' }, now)?.field).toBe('timezone');
  expect(cronFault({ expression: '5 4 * * sun', timezone: berlin }, now)).toBeUndefined();
});
