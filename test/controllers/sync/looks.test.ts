import { describe, expect, it } from 'vitest';
import { isDue, pauseOf, retryOf } from '../../../controllers/sync/looks.ts';

const look = { generation: 2, announced: 5, dueAt: 1000, comparedAt: 0 };

describe('a look at the branch', () => {
  it.each([
    ['before its time', { generation: 2, announced: 5, now: 999 }, false],
    ['at its time', { generation: 2, announced: 5, now: 1000 }, true],
    ['after a change of the sync', { generation: 3, announced: 5, now: 0 }, true],
    ['after a webhook announced it', { generation: 2, announced: 6, now: 0 }, true],
  ])('is made or not %s', (_when, of, is) => {
    expect(isDue(look, of)).toBe(is);
  });

  it('is made where none was made yet', () => {
    expect(isDue(undefined, { generation: 1, announced: 0, now: 0 })).toBe(true);
  });
});

describe('what waits', () => {
  const firstMs = 5000;

  it('is tried again later and later, at most an interval apart', () => {
    const pauses = [];
    let retry = retryOf(undefined, { firstMs, mostMs: 30_000, now: 0 });
    for (let n = 0; n < 5; n += 1) {
      pauses.push(retry.afterMs);
      retry = retryOf(retry, { firstMs, mostMs: 30_000, now: retry.at });
    }
    expect(pauses).toEqual([5000, 10_000, 20_000, 30_000, 30_000]);
  });

  it('keeps its time where a change leads to a try before', () => {
    const retry = retryOf(undefined, { firstMs, mostMs: 30_000, now: 0 });
    expect(retryOf(retry, { firstMs, mostMs: 30_000, now: 4999 })).toBe(retry);
  });

  it('is tried before the next look only where that comes later', () => {
    expect(pauseOf(look, 400)).toBe(600);
    expect(pauseOf({ ...look, retry: { at: 700, afterMs: 500 } }, 400)).toBe(300);
    expect(pauseOf({ ...look, retry: { at: 2000, afterMs: 500 } }, 400)).toBe(600);
  });
});
