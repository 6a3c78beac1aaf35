import { expect, test } from 'vitest';
import { retentionClock } from '../../agent-protocol/retention-clock.ts';
import { FakeClock } from '../harness/fake-clock.ts';

const hour = 3_600_000;
const year = 365 * 24 * hour;

test('it is the wall clock while that goes on as time does', async () => {
  const clock = new FakeClock();
  const time = retentionClock(clock, clock.now().getTime());
  for (let n = 0; n < 3; n++) {
    await clock.advance(hour);
    expect(time()).toBe(clock.now().getTime());
  }
});

test('a jump ahead is come up to at twice the pace of time, however long it was right before', async () => {
  const clock = new FakeClock();
  const time = retentionClock(clock, undefined);
  await clock.advance(1000 * hour);
  const before = time();
  clock.jump(year);
  expect(time()).toBe(before);
  await clock.advance(hour);
  expect(time()).toBe(before + 2 * hour);
  await clock.advance(2 * year);
  expect(time()).toBe(clock.now().getTime());
});

test('a jump back is believed at once, and its correction is come up to', async () => {
  const clock = new FakeClock();
  const time = retentionClock(clock, undefined);
  const before = time();
  clock.jump(-year);
  expect(time()).toBe(before - year);
  clock.jump(year);
  await clock.advance(hour);
  expect(time()).toBeLessThanOrEqual(before - year + 2 * hour);
});

test('a clock that jumped before the start is not believed beyond the newest record', () => {
  const clock = new FakeClock();
  const newest = clock.now().getTime();
  clock.jump(year);
  expect(retentionClock(clock, newest)()).toBe(newest);
  expect(retentionClock(clock, newest + 2 * year)()).toBe(clock.now().getTime());
});
