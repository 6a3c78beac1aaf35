import { expect, test } from 'vitest';
import { floorBytes } from '../../../agent/disk/disk-guard.ts';

test('the disk keeps 5 % free, within bounds', () => {
  const GiB = 1024 ** 3;
  expect([GiB, 20 * GiB, 1000 * GiB].map(floorBytes)).toEqual([GiB / 2, GiB, 5 * GiB]);
});
