import { expect, test } from 'vitest';
import { Paced } from '../../../agent/tasks/paced.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

test('values are passed on at once and then in pace, of those between only the last', async () => {
  const clock = new FakeClock();
  const passed: number[] = [];
  using paced = new Paced<number>(clock, 1_000, (value) => passed.push(value));
  for (let value = 1; value <= 5; value++) {
    paced.next(value);
    await clock.advance(400);
  }
  expect(passed).toEqual([1, 3, 5]);
  await clock.advance(5_000);
  expect(clock.pending).toBe(0);
  paced.next(6);
  expect(passed).toEqual([1, 3, 5, 6]);
});

test('after its end nothing is passed on, whether something was before or not', async () => {
  const clock = new FakeClock();
  for (const before of [[], [1, 2]]) {
    const passed: number[] = [];
    const paced = new Paced<number>(clock, 1_000, (value) => passed.push(value));
    for (const value of before) paced.next(value);
    paced[Symbol.dispose]();
    paced.next(3);
    await clock.advance(5_000);
    expect(passed).toEqual(before.slice(0, 1));
    expect(clock.pending).toBe(0);
  }
});
