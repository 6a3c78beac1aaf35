import { openMock } from '../../../agent/engine/open-mock.ts';
import { createHash, randomBytes } from 'node:crypto';
import { zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CallError } from '../../../agent-protocol/call-error.ts';
import type { Progress } from '../../../agent-protocol/workload.ts';
import { ControlPlane } from '../../../agent/tasks/control-plane.ts';
import type { Actual } from '../../../agent/engine/observer.ts';
import type { ExecOptions } from '../../../agent/runtime/exec.ts';
import { ExecFailure } from '../../../agent/runtime/exec.ts';
import { runBackup } from '../../../agent/tasks/backup.ts';
import type { TaskItem } from '../../../agent/tasks/task.ts';
import { postgres } from '../../../databases/postgres.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { until } from '../../harness/until.ts';
import { partServer } from '../transfer/part-server.ts';
import type { PartServer } from '../transfer/part-server.ts';
import { ScriptedProgram } from './scripted-program.ts';
import type { Script } from './scripted-program.ts';

let server: PartServer;
let programs: ScriptedProgram[];
beforeEach(async () => {
  server = await partServer();
  programs = [];
});
afterEach(async () => {
  await until('every connection is closed', async () => (await server.connections) === 0);
  await server[Symbol.asyncDispose]();
  // whatever happened, no program goes on in the container
  expect(programs.map(({ isGone }) => isGone)).toEqual(programs.map(() => true));
});

const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms < 60_000 ? 0 : ms, fn) };
const end = postgres.dump?.end.by === 'text' ? postgres.dump.end.text : '';
const dump = `SELECT 1;\n${'-- Zeile mit ö\n'.repeat(2000)}${end}`;

/** It stays about as long when it is compressed. */
const much = randomBytes(100_000).toString('base64');

async function* text(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** Never ends by itself. */
async function* hanging(first: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(first);
  await new Promise(() => undefined);
}

interface Around {
  script?: Script;
  /** Why the program cannot be started. */
  cannotStart?: Error;
  isRunning?: boolean;
  engine?: string;
  signal?: AbortSignal;
  asked?: () => Promise<unknown>;
}

function run({ script = {}, cannotStart, isRunning = true, engine = 'postgres', signal, asked }: Around) {
  const control = new ControlPlane();
  control.entered({
    ask: async (params) => {
      await asked?.();
      return {
        addresses: 'parts' in params ? params.parts.map((part) => `${server.endpoint}/part/${part}?key=secret`) : [],
      };
    },
  });
  const progress: Progress[] = [];
  const actual = { container: { id: 'container', state: isRunning ? 'running' : 'exited' } } as Actual; // what is read of it
  const work = runBackup({
    runtime: {
      run: async () => {
        throw new Error('Nothing is asked of the engine for a dump');
      },
      exec: async (_: string, options: ExecOptions, over: AbortSignal) => {
        if (cannotStart !== undefined) throw cannotStart;
        const program = new ScriptedProgram(options, script, over);
        programs.push(program);
        return program.process;
      },
    },
    archiver: openMock({ type: 'mock', clock: systemClock }).archiver,
    observer: { of: () => [actual] },
    control,
    clock: hasty,
    random: () => 0,
  });
  const spec = { type: 'backup', attempt: 1, deadline_seconds: 60, engine, instance: 'instance', part_bytes: 1000 };
  const item = { id: 'task', spec } as TaskItem<'backup'>; // the rest is of no matter to it
  const at = (now: Progress): void => void progress.push(now);
  const going = work(
    item,
    { line: () => undefined, learned: () => undefined, at },
    signal ?? new AbortController().signal,
  );
  return { going, progress };
}

const sent = (): Buffer =>
  Buffer.concat([...server.parts.entries()].toSorted(([a], [b]) => a - b).map(([, part]) => part));

test('the dump of the program of the engine is in the bucket, compressed, as the result says', async () => {
  const { going, progress } = run({ script: { output: () => text(dump.slice(0, 100), dump.slice(100)) } });
  const result = await going;
  expect(zstdDecompressSync(sent()).toString()).toBe(dump);
  expect(result).toMatchObject({
    size_bytes: sent().length,
    dump_bytes: Buffer.byteLength(dump),
    checksum_sha256: createHash('sha256').update(sent()).digest('hex'),
    parts: server.parts.size,
  });
  expect(programs[0]?.options.command).toEqual(postgres.dump?.command);
  expect(programs[0]?.hasInputEnded).toBe(true);
  expect(progress.at(-1)).toMatchObject({ step: 'sending', done: Buffer.byteLength(dump), unit: 'bytes' });
});

test.each<[string, Script, string]>([
  [
    'ends with another code after a whole dump',
    { output: () => text(dump), errors: 'pg_dumpall: no room\n', code: 1 },
    'pg_dumpall ended with 1. It said: pg_dumpall: no room',
  ],
  [
    'ends with another code in the middle',
    { output: () => text(dump.slice(0, 500)), errors: 'pg_dumpall: error: permission denied\n', code: 1 },
    'It said: pg_dumpall: error: permission denied',
  ],
  ['ends well before the end of the dump', { output: () => text(dump.slice(0, -1)) }, 'The dump is cut'],
  ['writes nothing', { output: () => text() }, 'The dump is cut'],
  [
    'ends with the database',
    { output: () => text(dump.slice(0, 500)), code: undefined, errors: 'server closed the connection' },
    'It said: server closed the connection',
  ],
])('a program that %s makes no backup', async (_, script, words) => {
  const { going } = run({ script });
  await expect(going).rejects.toMatchObject({
    code: 'backup_failed',
    message: expect.stringContaining(words),
  });
  await expect(going).rejects.not.toThrow(/\s$|\n/);
});

test('only the end of what a program says is kept of a long complaint', async () => {
  const errors = `${'x'.repeat(100_000)} the reason`;
  const { going } = run({ script: { output: () => text(), errors, code: 1 } });
  await expect(going).rejects.toThrow(/^.{0,3000}the reason$/);
});

test('a database that does not run is asked for again later', async () => {
  await expect(run({ isRunning: false }).going).rejects.toMatchObject({ code: 'not_serving', retryable: true });
});

test('a program that cannot be started is a failure with its reason', async () => {
  const cannotStart = new ExecFailure('no_program', 'There is no pg_dumpall in the container');
  await expect(run({ cannotStart }).going).rejects.toMatchObject({
    code: 'backup_failed',
    message: expect.stringContaining('There is no pg_dumpall'),
  });
});

test('an engine that this release does not know needs a later agent', async () => {
  await expect(run({ engine: 'oracle' }).going).rejects.toMatchObject({ code: 'agent_outdated', retryable: false });
});

test('a bucket that refuses the parts ends the program in the container', async () => {
  server.faults = Array.from({ length: 40 }, () => ({ status: 403, code: 'AccessDenied' }));
  const { going } = run({ script: { output: () => hanging(much) } });
  await expect(going).rejects.toMatchObject({ code: 'transfer_failed' });
  await expect(going).rejects.not.toThrow(/secret/);
  expect(programs.map(({ isGone }) => isGone)).toEqual([true]);
});

test('a backup that is not wanted any more ends at once', async () => {
  const asked = (): Promise<never> => Promise.reject(new CallError('not_assigned', 'Not wanted any more'));
  const { going } = run({ script: { output: () => hanging(much) }, asked });
  await expect(going).rejects.toMatchObject({ code: 'transfer_failed', retryable: false });
});

test('one that is cancelled in the middle ends with the reason, after its program is gone', async () => {
  const stop = new AbortController();
  const { going } = run({ script: { output: () => hanging(dump) }, signal: stop.signal });
  await until('the program runs', async () => programs.length === 1);
  stop.abort(new Error('cancelled'));
  await expect(going).rejects.toThrow('cancelled');
  expect(programs.map(({ isGone }) => isGone)).toEqual([true]);
});
