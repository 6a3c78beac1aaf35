import { expect, test } from 'vitest';
import type { Actual } from '../../../agent/engine/observer.ts';
import { runRecovery } from '../../../agent/tasks/recovery.ts';
import type { TaskItem } from '../../../agent/tasks/task.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';

const gibibyte = 1024 ** 3;
const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms < 60_000 ? 0 : ms, fn) };

test('a disk that is nearly full ends a recovery while it replays', async () => {
  let asked = 0;
  const work = runRecovery({
    runtime: {
      exec: () => Promise.reject(new Error('No program is expected')),
      run: async () => {
        asked += 1;
        throw new Error('It replays, and takes no connections yet');
      },
      volume: () => Promise.reject(new Error('No volume is expected')),
    },
    observer: { of: () => [{ container: { id: 'container', state: 'running' } } as Actual] }, // what is read of it
    disk: async () => ({ freeBytes: (asked < 3 ? 100 : 4) * gibibyte, totalBytes: 200 * gibibyte }),
    clock: hasty,
  });
  const spec = {
    type: 'recovery',
    attempt: 1,
    deadline_seconds: 60,
    engine: 'postgres',
    instance: 'instance',
    volume: 'sp-vol-fresh',
    target_time: '2030-01-01T00:00:00.000Z',
  };
  const going = work(
    { id: 'task', spec } as TaskItem<'recovery'>, // the rest is of no matter to it
    { line: () => undefined, learned: () => undefined, at: () => undefined },
    new AbortController().signal,
  );
  await expect(going).rejects.toMatchObject({
    code: 'no_space',
    message: expect.stringContaining('Cannot go on with the recovery as less than 5120 MiB'),
  });
});
