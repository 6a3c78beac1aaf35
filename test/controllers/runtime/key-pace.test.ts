import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KeyPace } from '../../../controllers/runtime/key-pace.ts';

const everyMs = 100;
const burst = 5;

test('within any time a key runs as often as the pace allows, however it is added', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(300), { minLength: 1, maxLength: 80 }), (pauses) => {
      const pace = new KeyPace({ everyMs, burst });
      const runs: number[] = [];
      let now = 1000;
      for (const pause of pauses) {
        now = Math.max(now + pause, pace.earliest('a'));
        pace.count('a', now);
        runs.push(now);
      }
      for (const [first, from] of runs.entries())
        for (const [last, until] of runs.entries())
          if (last >= first) expect(last - first + 1).toBeLessThanOrEqual(burst + (until - from) / everyMs);
    }),
  );
});

test('a key that runs seldom is never put off', () => {
  const pace = new KeyPace({ everyMs, burst });
  for (let now = 0; now < 100 * everyMs; now += everyMs) {
    expect(pace.earliest('a')).toBeLessThanOrEqual(now);
    pace.count('a', now);
  }
});

test('a key does not put off another one', () => {
  const pace = new KeyPace({ everyMs, burst });
  for (let n = 0; n < burst; n++) pace.count('a', 0);
  expect(pace.earliest('a')).toBe(everyMs);
  expect(pace.earliest('b')).toBe(-Infinity);
});

test('keys whose runs count no longer are forgotten, however many there were', () => {
  const pace = new KeyPace({ everyMs, burst });
  for (let n = 0; n < 10_000; n++) pace.count(`once ${n}`, 0);
  expect(pace.size).toBe(10_000);
  for (let n = 0; n < 10_000; n++) pace.count('often', everyMs + n * everyMs);
  expect(pace.size).toBe(1);
});
