import { randomUUID } from 'node:crypto';
import { cpSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test, vi } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { DesiredSet } from '../../../agent/desired/desired.ts';
import { LogStore } from '../../../agent/logs/log-store.ts';
import type { TaskRow } from '../../../agent-protocol/task-table.ts';
import type { TaskResult } from '../../../agent-protocol/task-types.ts';
import { taskRow } from '../../../agent-protocol/task-types.ts';
import type { TaskProgress, TaskWork } from '../../../agent/tasks/task.ts';
import { TaskWorker } from '../../../agent/tasks/task-worker.ts';
import { Turns } from '../../../agent/tasks/turns.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';
import type { WireReport } from '../../../agent-protocol/assignment.ts';
import type { BuildItem, RunBuild } from '../../../agent/tasks/build-task.ts';
import { Results } from '../../../agent/tasks/results.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { buildSpec } from '../../harness/wire-items.ts';
import { AgentWorld, service } from '../agent-world.ts';

const mostBuilds = 5;

function item(): BuildItem {
  return { ...service(), spec: buildSpec() };
}

const wrong = new RuntimeFailure('build_failed', 'The build failed', { retryable: false });

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
  );
}

/** Each build comes to another image, as builds of a changing world do. */
function builds(): { run: RunBuild; made: string[] } {
  const made: string[] = [];
  const run: RunBuild = () => {
    const image = `sha256:${randomUUID()}`;
    made.push(image);
    // One that is begun without end would leave the test no turn to fail.
    if (made.length > mostBuilds) return new Promise(() => undefined);
    return Promise.resolve({ image, commit: 'c0ffee', commitMessage: 'Make it work' });
  };
  return { run, made };
}

test('a result that the disk does not take is not reported, and is known once it is taken', async () => {
  await using world = await AgentWorld.create();
  const { run, made } = builds();
  const full = vi.spyOn(Results.prototype, 'put').mockRejectedValue(new Error('No space left on device'));
  try {
    const wanted = item();
    const reports: WireReport[] = [];
    await world.start({ build: run });
    world.agent.backend.onReport(() => {
      const report = world.report(wanted);
      if (report !== undefined) reports.push(report);
    });
    await world.snapshot(wanted);
    await world.until('it is tried again', () => full.mock.calls.length === 3);
    await world.delta([{ ...wanted, generation: 2 }]);
    await world.until('it is tried once more', () => full.mock.calls.length === 4);
    expect(reports.filter(({ phase }) => phase === 'succeeded')).toEqual([]);
    full.mockRestore();
    await world.until('reported', () => world.report(wanted)?.phase === 'succeeded');
    expect(world.report(wanted)).toMatchObject({ generation: 2, image_digest: made[0] });
    expect(made).toHaveLength(1);
  } finally {
    full.mockRestore();
  }
});

test.each<[string, () => Promise<{ dump_bytes: number }>]>([
  ['succeeded', async () => ({ dump_bytes: 5 })],
  ['failed', () => Promise.reject(new RuntimeFailure('restore_failed', 'It is cut', { retryable: false }))],
])('a dump that was sent stays until the disk has the result of its restore: %s', async (phase, restore) => {
  await using world = await AgentWorld.create();
  const full = vi.spyOn(Results.prototype, 'put').mockRejectedValue(new Error('No space left on device'));
  try {
    const sent = randomUUID();
    const wanted = {
      ...service(),
      spec: {
        type: 'restore' as const,
        attempt: 1,
        deadline_seconds: 60,
        engine: 'postgres',
        instance: 'instance',
        volume: 'sp-vol-fresh',
        size_bytes: 0,
        dump_bytes: 0,
        checksum_sha256: '',
        source: { by: 'upload' as const, name: sent, database: 'app' },
      },
    };
    await world.start({ restore });
    const uploads = join(world.dir, 'uploads');
    await writeFile(join(uploads, sent), 'SELECT 1;');
    await world.snapshot(wanted);
    await world.until('it is tried again', () => full.mock.calls.length === 3);
    expect(await readdir(uploads)).toEqual([sent]);
    full.mockRestore();
    await world.until('reported', () => world.report(wanted)?.phase === phase);
    expect(await readdir(uploads)).toEqual([]);
  } finally {
    full.mockRestore();
  }
});

test('a build that fails or takes too long names the commit that it had checked out, and keeps it', async () => {
  const failures: { build: RunBuild; seconds: number; code: string }[] = [
    { build: () => Promise.reject(wrong), seconds: 600, code: 'build_failed' },
    { build: () => new Promise(() => undefined), seconds: 1, code: 'build_timeout' },
  ];
  for (const { build, seconds, code } of failures) {
    await using world = await AgentWorld.create();
    const known: RunBuild = (of, progress, signal) => {
      progress.checkedOut({ commit: 'c0ffee', commitMessage: 'Break it' });
      return Promise.race([build(of, progress, signal), aborted(signal)]);
    };
    const wanted = item();
    wanted.spec.deadline_seconds = seconds;
    await world.start({ build: known });
    await world.snapshot(wanted);
    await world.until('failed', () => world.report(wanted)?.phase === 'failed');
    const failure = { error: { code }, commit: 'c0ffee', commit_message: 'Break it' };
    expect(world.report(wanted)).toMatchObject(failure);
    await world.stop();
    await world.start({ build: known });
    await world.snapshot(wanted);
    await world.until('reported again', () => world.report(wanted)?.phase === 'failed');
    expect(world.report(wanted)).toMatchObject(failure);
  }
});

test('a build that fails before it has a commit names none', async () => {
  await using world = await AgentWorld.create();
  const wanted = item();
  await world.start({
    build: (_, progress) => {
      progress.checkedOut({ commit: 'c0ffee', commitMessage: 'Of an attempt that the engine lost' });
      progress.checkedOut(undefined);
      return Promise.reject(wrong);
    },
  });
  await world.snapshot(wanted);
  await world.until('failed', () => world.report(wanted)?.phase === 'failed');
  expect(world.report(wanted)).not.toHaveProperty('commit');
});

test('a result that cannot be written is not known either', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-results-'));
  try {
    const results = await Results.open(join(folder, 'results'), Buffer.alloc(32));
    await results[Symbol.asyncDispose]();
    const report: WireReport = {
      id: 'a',
      generation: 1,
      phase: 'succeeded',
      ready: false,
      stable: false,
      restarts: 0,
      crash_loop: false,
    };
    await expect(results.put({ id: 'a', attempt: 1, report })).rejects.toThrow('Cannot append');
    expect(results.get('a', 1)).toBeUndefined();
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('an agent that dies when it reports a result finds that very result, and builds no more', async () => {
  await using world = await AgentWorld.create();
  const { run, made } = builds();
  const copy = `${world.dir}-copy`;
  const wanted = item();
  try {
    await world.start({ build: run });
    let built: string | undefined;
    world.agent.backend.onReport(() => {
      const report = world.report(wanted);
      if (report?.phase !== 'succeeded' || built !== undefined) return;
      built = report.image_digest;
      // What the disk holds at this very moment is all that the next agent finds.
      cpSync(world.dir, copy, { recursive: true });
    });
    await world.snapshot(wanted);
    await world.until('reported', () => built !== undefined);
    await world.stop();
    await world.start({ build: run, dataDir: copy });
    await world.snapshot(wanted);
    await world.until('reported again', () => world.report(wanted)?.phase === 'succeeded');
    expect(world.report(wanted)?.image_digest).toBe(built);
    expect(made).toEqual([built]);
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
});

/** An agent's disk, and a task on it that must not be repeated by itself. */
async function restores() {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-tasks-'));
  const log = pino({ level: 'silent' });
  const logs = await LogStore.open({
    folder: join(folder, 'logs'),
    maxBytes: 1e6,
    segmentBytes: 1e5,
    retentionDays: 1,
    clock: systemClock,
    log,
  });
  const clock = new FakeClock();
  const began: number[] = [];
  const running: TaskProgress[] = [];
  const reports: WireReport[] = [];
  const end = Promise.withResolvers<TaskResult>();
  const row: TaskRow = { ...taskRow('build'), noun: 'restore', ifInterrupted: 'lost', output: 'system' };
  const work: TaskWork = {
    turns: new Turns(1),
    run: ({ spec }, progress, signal) => {
      began.push(spec.attempt);
      running.push(progress);
      return Promise.race([end.promise, aborted(signal)]);
    },
  };
  /** One process of the agent. */
  const asProcess = async (wanted: BuildItem, check: (worker: TaskWorker) => Promise<void>): Promise<void> => {
    await using results = await Results.open(join(folder, 'results'), Buffer.alloc(32));
    await using desired = await DesiredSet.open(join(folder, 'desired'), Buffer.alloc(32));
    const deps = { desired, results, logs, clock, log, reported: (report: WireReport) => void reports.push(report) };
    await using worker = new TaskWorker(wanted.id, { row, work }, deps);
    worker.desire(wanted);
    await check(worker);
  };
  const remove = async () => {
    await logs[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  };
  return { asProcess, began, running, reports, end, clock, [Symbol.asyncDispose]: remove };
}

const isIn = async (worker: TaskWorker, phase: WireReport['phase']): Promise<void> => {
  await until(phase, () => Promise.resolve(worker.report?.phase === phase));
};

test('a task that must not be repeated is lost when its agent ends, and only another attempt runs', async () => {
  await using disk = await restores();
  const wanted = item();
  await disk.asProcess(wanted, (worker) => isIn(worker, 'running'));
  for (let restart = 0; restart < 2; restart++)
    await disk.asProcess(wanted, async (worker) => {
      await isIn(worker, 'lost');
      expect(worker.report?.error).toEqual({
        code: 'interrupted',
        message:
          'The restore was interrupted as the agent of the server ended: it is not known whether it had an effect. Check that, then begin it again',
      });
    });
  expect(disk.began).toEqual([1]);
  disk.end.resolve({ image_digest: 'sha256:1' });
  const again = { ...wanted, generation: 2, spec: { ...wanted.spec, attempt: 2 } };
  await disk.asProcess(again, (worker) => isIn(worker, 'succeeded'));
  await disk.asProcess(again, (worker) => isIn(worker, 'succeeded'));
  expect(disk.began).toEqual([1, 2]);
});

test('a task that must not be repeated does not begin while that cannot be noted on disk', async () => {
  await using disk = await restores();
  const full = vi.spyOn(Results.prototype, 'begin').mockRejectedValue(new Error('No space left on device'));
  try {
    await disk.asProcess(item(), async (worker) => {
      await until('it is tried again', async () => {
        await disk.clock.advance(5_000);
        return full.mock.calls.length > 1;
      });
      expect(disk.began).toEqual([]);
      full.mockRestore();
      await disk.clock.advance(5_000);
      await isIn(worker, 'running');
      await until('it began', () => Promise.resolve(disk.began.length === 1));
    });
  } finally {
    full.mockRestore();
  }
});

test('the progress of a task is reported once per second, the last one always, and not with its result', async () => {
  await using disk = await restores();
  const wanted = item();
  await disk.asProcess(wanted, async (worker) => {
    await until('it runs', () => Promise.resolve(disk.running.length === 1));
    const [task] = disk.running;
    for (let done = 1; done <= 10_000; done++) {
      task?.at({ step: 'copying', done, total: 10_000, unit: 'bytes' });
      if (done % 1000 === 0) await disk.clock.advance(100);
    }
    await disk.clock.advance(1_000);
    const shown = disk.reports.flatMap(({ progress }) => progress?.done ?? []);
    expect(shown).toEqual([1, 10_000]);
    expect(worker.report).toMatchObject({ phase: 'running', progress: { step: 'copying', done: 10_000 } });

    await disk.clock.advance(60_000);
    expect(disk.reports.at(-1)).toMatchObject({ progress: { done: 10_000 } });
    const before = disk.reports.length;
    task?.at({ step: 'copying', done: 10_000, total: 10_000, unit: 'bytes' });
    await disk.clock.advance(1_000);
    expect(disk.reports).toHaveLength(before);

    task?.at({ step: 'checking' });
    task?.at({ step: 'closing' });
    worker.desire({ ...wanted, generation: 2 });
    expect(worker.report).toMatchObject({ generation: 2, phase: 'running', progress: { step: 'checking' } });
    disk.end.resolve({ image_digest: 'sha256:1' });
    await isIn(worker, 'succeeded');
    await disk.clock.advance(5_000);
    task?.at({ step: 'late' });
    await disk.clock.advance(5_000);
    expect(worker.report).toMatchObject({ phase: 'succeeded', image_digest: 'sha256:1' });
    expect(worker.report).not.toHaveProperty('progress');
    expect(disk.reports.filter(({ progress }) => ['closing', 'late'].includes(progress?.step ?? ''))).toEqual([]);
  });
  await disk.asProcess({ ...wanted, generation: 2 }, async (worker) => {
    expect(worker.report).toMatchObject({ phase: 'succeeded' });
    expect(worker.report).not.toHaveProperty('progress');
  });
});

test('a task that is stopped reports no progress any more', async () => {
  await using disk = await restores();
  await disk.asProcess(item(), async (worker) => {
    await until('it runs', () => Promise.resolve(disk.running.length === 1));
    disk.running[0]?.at({ step: 'copying' });
    await disk.clock.advance(1_000);
    worker.desire({ ...item(), id: worker.id, generation: 2, run: 'stopped' });
    expect(worker.report).toMatchObject({ phase: 'stopping' });
    disk.running[0]?.at({ step: 'closing' });
    await disk.clock.advance(5_000);
    await isIn(worker, 'stopped');
    expect(disk.reports.flatMap(({ progress }) => progress?.step ?? [])).toEqual(['starting', 'copying']);
    expect(worker.report).not.toHaveProperty('progress');
  });
});
