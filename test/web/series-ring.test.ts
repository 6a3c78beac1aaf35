import { expect, test } from 'vitest';
import { SeriesRing } from '../../web/parts/series-ring.ts';

test('a ring of samples keeps the newest, in order, with holes where a series has none', () => {
  const ring = new SeriesRing(2, 3);
  ring.push(1, [10, 1]);
  ring.push(2, [20]);
  ring.push(2, [99, 99]);
  ring.push(3, [30, 3]);
  ring.push(4, [40, 4]);
  expect(ring.times).toEqual([2, 3, 4]);
  expect([ring.column(0), ring.column(1)]).toEqual([
    [20, 30, 40],
    [null, 3, 4],
  ]);
});
