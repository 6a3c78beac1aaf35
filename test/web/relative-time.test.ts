import { expect, test } from 'vitest';
import { durationText, relativeTime } from '../../web/parts/relative-time.ts';

const now = Date.parse('2026-03-10T12:00:00Z');
const before = (seconds: number): string => new Date(now - seconds * 1000).toISOString();

test('an instant is told in one unit, before and after now', () => {
  expect([1, 12, 240, 7200, 3 * 86_400].map((seconds) => relativeTime(before(seconds), now))).toEqual([
    'just now',
    '12 s ago',
    '4 min ago',
    '2 h ago',
    '3 d ago',
  ]);
  expect(relativeTime(before(-300), now)).toBe('in 5 min');
});

test('an instant of long ago is told by its date, and a text that is none as it is', () => {
  expect(relativeTime('2025-01-05T12:00:00Z', now)).toContain('2025');
  expect(relativeTime('never', now)).toBe('never');
});

test('a length of time has its two largest units', () => {
  expect([40, 4200, 59_000, 124_000, 3_660_000, 90_000_000].map(durationText)).toEqual([
    '40 ms',
    '4.2 s',
    '59 s',
    '2 m 04 s',
    '1 h 01 m',
    '1 d 01 h',
  ]);
});
