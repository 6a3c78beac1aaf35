import { expect, test } from 'vitest';
import { stopped } from '../../cli/stop-signal.ts';

const timers = () => process.getActiveResourcesInfo().filter((it) => it === 'Timeout').length;

test('a program that waits to be stopped goes on while it has nothing else to wait for', async () => {
  const stop = new AbortController();
  const before = timers();
  const waiting = stopped(stop.signal);
  expect(timers()).toBe(before + 1);
  stop.abort();
  await waiting;
  expect(timers()).toBe(before);
});
