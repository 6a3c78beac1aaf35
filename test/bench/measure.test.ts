import { expect, test } from 'vitest';
import { measure, spread } from '../../bench/measure.ts';

test('the spread of an even count has the mean of the two middle figures as its median', () => {
  expect(spread([4, 1, 3, 2])).toEqual({ median: 2.5, min: 1, max: 4 });
  expect(spread([7])).toEqual({ median: 7, min: 7, max: 7 });
});

test('raw and ours take turns in going first, and the first pair does not count', async () => {
  const order: string[] = [];
  let round = 0;
  const result = await measure({
    what: 'a test',
    unit: 'ms',
    goal: { atMost: 2 },
    rounds: 3,
    raw: async () => {
      order.push('raw');
      return 10;
    },
    ours: async () => {
      order.push('ours');
      return [1_000, 10, 20, 30][round++] ?? NaN;
    },
  });
  expect(order.join(' ')).toBe('raw ours ours raw raw ours ours raw');
  expect(result).toMatchObject({ ours: { median: 20, max: 30 }, ratio: { median: 2, min: 1, max: 3 }, met: true });
});

test('without a raw figure the goal is asked of ours alone', async () => {
  const ours = async () => 90;
  expect((await measure({ what: 'a test', unit: 'MB', goal: { atMost: 110 }, ours })).met).toBe(true);
  expect((await measure({ what: 'a test', unit: 'MB', goal: { atLeast: 110 }, ours })).met).toBe(false);
});
