import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { BuildProgress } from '../../../agent/tasks/build-progress.ts';
import type { BuildItem, BuildResult } from '../../../agent/tasks/build-task.ts';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { EngineMonitor } from '../../../agent/engine/engine-monitor.ts';
import { engineTrouble } from '../../../agent/engine/engine-trouble.ts';
import { openMock } from '../../../agent/engine/open-mock.ts';
import { BuildRoom } from '../../../agent/tasks/build-room.ts';
import { patientBuild } from '../../../agent/tasks/patient-build.ts';
import { dockerWords } from '../../../agent/runtime/docker/trouble-words.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const item = { spec: { image: 'web:1' } } as BuildItem; // nothing else of it is read
const result: BuildResult = { image: 'sha256:1', commit: 'c', commitMessage: 'm' };
const lost = new RuntimeFailure('runtime_unavailable', 'The container engine does not answer', { retryable: true });

function rig(
  attempts: (Error | BuildResult | ((signal: AbortSignal) => Promise<BuildResult>))[],
  afterLoss: 'away' | 'back' = 'away',
) {
  const disk = diskGuard(() => Promise.resolve(space));
  const space = { freeBytes: 50e9, totalBytes: 100e9 };
  const clock = new FakeClock();
  const engine = new EngineMonitor({
    engine: openMock({ type: 'mock', clock }),
    clock,
    log: pino({ level: 'silent' }),
  });
  const lines: string[] = [];
  const commits: (string | undefined)[] = [];
  const steps: string[] = [];
  const progress: BuildProgress = {
    line: (text) => lines.push(text),
    checkedOut: (source) => commits.push(source?.commit),
    at: ({ step }) => steps.push(step),
  };
  const wanted: (string | undefined)[] = [];
  const stop = new AbortController();
  const left = [...attempts];
  const build = patientBuild(
    async ({ spec }, progress, signal) => {
      const next = left.shift();
      wanted.push(spec.commit);
      progress.checkedOut({ commit: spec.commit ?? `c${left.length}`, commitMessage: 'm' });
      if (next === undefined) throw new Error('Built more often than expected');
      if (next instanceof Error) throw next;
      return typeof next === 'function' ? next(signal) : next;
    },
    {
      disk,
      room: new BuildRoom({ disk: () => Promise.resolve(space), writes: () => Promise.resolve(0), clock }),
      engine,
      clock,
      async relist() {
        if (afterLoss === 'away') engine.silent(lost);
      },
    },
  );
  return {
    clock,
    space,
    engine,
    lines,
    commits,
    wanted,
    steps,
    stop,
    left,
    run: () => build(item, progress, stop.signal),
  };
}

test('a build waits for an engine that is away, and begins again of the same commit when it was lost with it', async () => {
  const { engine, lines, commits, wanted, steps, left, run } = rig([lost, result]);
  engine.silent(lost);
  const running = run();
  await expect.poll(() => lines.length).toBe(1);
  expect(left).toHaveLength(2);
  engine.returned();
  await expect.poll(() => lines.length).toBe(3);
  engine.returned();
  expect(await running).toBe(result);
  expect(commits).toEqual(['c1', undefined, 'c1']);
  // A push meanwhile is not built: the deployment has told its commit.
  expect(wanted).toEqual([undefined, 'c1']);
  expect(steps).toEqual(['waiting_for_engine', 'waiting_for_engine']);
});

test('a build that the deadline ends while it waits says that the engine is why', async () => {
  const { engine, stop, run } = rig([]);
  engine.silent(lost);
  const running = run();
  stop.abort(new Error('Late'));
  await expect(running).rejects.toMatchObject({ code: 'runtime_unavailable', message: lost.message });
});

test('an engine that answers and loses every build is not tried without end', async () => {
  const { engine, left, run } = rig([lost, lost, lost, result], 'back');
  engine.returned();
  await expect(run()).rejects.toBe(lost);
  expect(left).toEqual([result]);
});

test('a build under which the disk fills up is ended, and says so', async () => {
  const building = Promise.withResolvers<void>();
  const { clock, space, engine, run } = rig([
    (signal) => {
      building.resolve();
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('Given up')), { once: true }),
      );
    },
  ]);
  engine.returned();
  const failed = run().then(
    () => undefined,
    (error: unknown) => error,
  );
  await building.promise;
  await clock.advance(4_000);
  space.freeBytes = 4e9;
  await clock.advance(2_000);
  expect(await failed).toMatchObject({
    code: 'no_space',
    message: expect.stringMatching(/^Cannot go on building image web:1 as less than \d+ MiB/),
  });
});

test('what is wrong with the build itself ends it at once', async () => {
  const wrong = new RuntimeFailure('build_failed', 'Build failed', { retryable: false });
  const { engine, run } = rig([wrong]);
  engine.returned();
  await expect(run()).rejects.toBe(wrong);
});

test.each([
  ['ENOENT', 'EngineNotRunning', /systemctl start docker/],
  ['ECONNREFUSED', 'EngineNotRunning', /systemctl start docker/],
  ['EACCES', 'EngineForbidden', /as root/],
])('an engine that fails with %s is reported with what to do', (code, reason, message) => {
  const cause = Object.assign(new Error('connect'), { code });
  const error = new RuntimeFailure('runtime_unavailable', 'It does not answer at /x', { retryable: true, cause });
  expect(engineTrouble(dockerWords, error)).toEqual({ reason, message: expect.stringMatching(message) });
});

test('an engine that takes calls and never answers is reported as hanging', () => {
  expect(engineTrouble(dockerWords, new Error('Listing containers did not end within 30000 ms'))).toMatchObject({
    reason: 'EngineHangs',
    message: expect.stringContaining('systemctl restart docker'),
  });
});
