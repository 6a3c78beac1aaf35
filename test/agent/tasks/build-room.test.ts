import { expect, test } from 'vitest';
import { BuildRoom } from '../../../agent/tasks/build-room.ts';
import type { BuildItem } from '../../../agent/tasks/build-task.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const gibibyte = 1024 ** 3;
const item = (project: string) => ({ project_id: project, spec: { image: `${project}:1` } }) as BuildItem; // all that is read

function rig(written: Record<string, number>) {
  const clock = new FakeClock();
  const space = { freeBytes: 50 * gibibyte, totalBytes: 100 * gibibyte };
  const room = new BuildRoom({
    disk: () => Promise.resolve(space),
    writes: (project) => Promise.resolve((written[project] ?? 0) * gibibyte),
    clock,
  });
  return { clock, space, room };
}

test('of several builds the one that wrote the most is ended when the disk is nearly full, and then waited for', async () => {
  const written = { small: 2, large: 30, third: 3 };
  const { clock, space, room } = rig(written);
  using small = room.watch(item('small'));
  using large = room.watch(item('large'));
  using third = room.watch(item('third'));
  await clock.advance(2_000);
  expect(large.signal.aborted).toBe(false);
  space.freeBytes = 9 * gibibyte;
  await clock.advance(2_000);
  expect(large.signal.reason).toMatchObject({
    code: 'no_space',
    message: expect.stringMatching(/^Cannot go on building image large:1 as .*30720 MiB/),
  });
  large[Symbol.dispose]();
  await clock.advance(20_000);
  expect([small.signal.aborted, third.signal.aborted]).toEqual([false, false]);
  await clock.advance(20_000);
  expect([small.signal.aborted, third.signal.aborted]).toEqual([false, true]);
});

test.each([
  ['alone', { only: 30 }, ['only']],
  ['that wrote little', { one: 0.5, other: 0.1 }, ['one', 'other']],
])('a build %s is not ended before the disk is full', async (_what, written, projects) => {
  const { clock, space, room } = rig(written);
  const watches = projects.map((project) => room.watch(item(project)));
  space.freeBytes = 6 * gibibyte;
  await clock.advance(10_000);
  expect(watches.map(({ signal }) => signal.aborted)).not.toContain(true);
  for (const one of watches) one[Symbol.dispose]();
});
