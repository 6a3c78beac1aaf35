import { openMock } from '../../../agent/engine/open-mock.ts';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Progress } from '../../../agent-protocol/workload.ts';
import type { ControlPlane } from '../../../agent/tasks/control-plane.ts';
import type { Actual } from '../../../agent/engine/observer.ts';
import type { ExecOptions } from '../../../agent/runtime/exec.ts';
import type { Volume } from '../../../agent/runtime/runtime.ts';
import { runRestore } from '../../../agent/tasks/restore.ts';
import type { TaskItem } from '../../../agent/tasks/task.ts';
import { crc64, emptyCrc64 } from '../../../databases/crc64.ts';
import { postgres } from '../../../databases/postgres.ts';
import { redis } from '../../../databases/redis.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { until } from '../../harness/until.ts';
import { partServer } from '../transfer/part-server.ts';
import type { PartServer } from '../transfer/part-server.ts';
import { ScriptedProgram } from './scripted-program.ts';
import type { Script } from './scripted-program.ts';

let server: PartServer;
let folder: string;
let programs: ScriptedProgram[];
beforeEach(async () => {
  server = await partServer();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-restore-'));
  programs = [];
});
afterEach(async () => {
  await until('every connection is closed', async () => (await server.connections) === 0);
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
  // whatever happened, no program goes on in the container
  expect(programs.map(({ isGone }) => isGone)).toEqual(programs.map(() => true));
});

const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms < 60_000 ? 0 : ms, fn) };
const end = postgres.dump?.end.by === 'text' ? postgres.dump.end.text : '';
const dump = `SELECT 1;\n-- ${randomBytes(20_000).toString('base64')}\n${end}`;
const byCommand = postgres.dump?.restore.by === 'command' ? postgres.dump.restore : undefined;
/** What the program says of a restore without a fault, which it is asked to by the end of its input. */
const done = /\\echo '(.*)'/.exec(byCommand?.after ?? '')?.[1] ?? '';
const gibibyte = 1024 ** 3;

interface Around {
  /** Of the program that restores, and of the one that reads all afterwards. */
  scripts?: readonly Script[];
  engine?: 'postgres' | 'redis';
  content?: string | Buffer;
  freeBytes?: number;
  /** What is free once the last of its programs has begun; absent: the same. */
  freeThen?: number;
  isRunning?: boolean;
  signal?: AbortSignal;
  /** What the bucket has in place of what was sent. */
  damaged?: (object: Buffer) => Buffer;
}

/** The program reads all, and says so. */
const good: Script = {
  output: async function* output(program) {
    await until('the input of the program ends', async () => program.hasInputEnded || program.isGone);
    yield Buffer.from(`${done}\n`);
  },
};

function run(around: Around = {}) {
  const { scripts = [good, {}], engine = 'postgres', content = dump, freeBytes = 100 * gibibyte } = around;
  const object = zstdCompressSync(content);
  server.object = around.damaged?.(object) ?? object;
  const progress: Progress[] = [];
  const state = around.isRunning === false ? 'exited' : 'running';
  const control: Pick<ControlPlane, 'addresses'> = { addresses: async () => [`${server.endpoint}/object?key=secret`] };
  const work = runRestore({
    runtime: {
      exec: async (_: string, options: ExecOptions, over: AbortSignal) => {
        const program = new ScriptedProgram(options, scripts[programs.length] ?? {}, over);
        programs.push(program);
        return program.process;
      },
      volume: async () => ({ path: folder }) as Volume, // what is read of it
      run: () => Promise.reject(new Error('No question is expected')),
    },
    archiver: openMock({ type: 'mock', clock: systemClock }).archiver,
    observer: { of: () => [{ container: { id: 'container', state } } as Actual] }, // what is read of it
    control,
    imports: {
      folder: { file: () => Promise.reject(new Error('No file is expected')) },
      uploads: { file: () => Promise.reject(new Error('No file is expected')) },
      networks: [],
    },
    disk: async () => ({
      freeBytes: programs.length >= scripts.length ? (around.freeThen ?? freeBytes) : freeBytes,
      totalBytes: 200 * gibibyte,
    }),
    clock: hasty,
    random: () => 0,
  });
  const spec = {
    type: 'restore',
    attempt: 1,
    deadline_seconds: 60,
    engine,
    volume: 'sp-vol-fresh',
    size_bytes: object.length,
    dump_bytes: content.length,
    checksum_sha256: createHash('sha256').update(object).digest('hex'),
    ...(engine === 'postgres' && { instance: 'instance' }),
  };
  const going = work(
    { id: 'task', spec } as TaskItem<'restore'>, // the rest is of no matter to it
    { line: () => undefined, learned: () => undefined, at: (now) => void progress.push(now) },
    around.signal ?? new AbortController().signal,
  );
  return { going, progress };
}

test('the program of the engine gets the dump between what it reads before and after, and all is read afterwards', async () => {
  const { going, progress } = run();
  await expect(going).resolves.toEqual({ dump_bytes: dump.length });
  expect(programs[0]?.input).toBe(`${byCommand?.before}${dump}${byCommand?.after}`);
  expect(programs.map(({ options }) => options.command)).toEqual([byCommand?.command, postgres.dump?.check]);
  expect(progress.at(-1)).toMatchObject({ step: 'restoring', done: dump.length, total: dump.length, unit: 'bytes' });
});

test('a disk without room for the dump is refused before anything is read', async () => {
  const { going } = run({ freeBytes: 10 });
  await expect(going).rejects.toMatchObject({
    code: 'no_space',
    retryable: false,
    message: expect.stringContaining('free some'),
  });
  expect([server.requests, programs]).toEqual([0, []]);
});

test.each<[string, readonly Script[]]>([
  ['while it is read', [{ output: () => endless() }]],
  ['while all is read afterwards', [good, { output: () => endless() }]],
])('a disk that is nearly full ends a restore, and its program, %s', async (_, scripts) => {
  await expect(run({ scripts, freeThen: 4 * gibibyte }).going).rejects.toMatchObject({
    code: 'no_space',
    message: expect.stringContaining('Cannot go on with the restore as less than 5120 MiB'),
  });
  expect(programs.map(({ isGone }) => isGone)).toEqual(scripts.map(() => true));
});

test.each<[string, (object: Buffer) => Buffer]>([
  ['a byte of it is another one', (object) => Buffer.from(object.map((byte, at) => (at === 9000 ? byte ^ 1 : byte)))],
  ['it is none of a compressed dump', (object) => Buffer.concat([Buffer.alloc(4), object.subarray(4)])],
  ['it is shorter', (object) => object.subarray(0, -1)],
  ['it is longer', (object) => Buffer.concat([object, Buffer.alloc(1)])],
])(
  'an object that was damaged is no restore, and the program never reads what makes it count: %s',
  async (_, damaged) => {
    const { going } = run({ damaged });
    await expect(going).rejects.toMatchObject({
      code: expect.stringMatching(/^(transfer|restore)_failed$/),
      retryable: false,
      message: expect.stringMatching(/the bucket has|The object at/),
    });
    await expect(going).rejects.not.toThrow(/secret/);
    expect(programs.map(({ input }) => input.includes(byCommand?.after ?? '')).includes(true)).toBe(false);
  },
);

test('a dump without its end is no restore, although the object is what was sent', async () => {
  const { going } = run({ content: dump.slice(0, -1) });
  await expect(going).rejects.toMatchObject({
    code: 'restore_failed',
    message: expect.stringContaining('What the bucket has is no whole dump: The dump is cut'),
  });
  expect(programs).toHaveLength(1);
  expect(programs[0]?.hasInputEnded).toBe(false);
});

test('what the engine refuses is the reason', async () => {
  const errors = `psql:<stdin>:3: ERROR:  42704: role "ann" does not exist\nLOCATION:  get_role_oid, acl.c:5448\n`;
  const { going } = run({ scripts: [{ ...good, errors, code: 3 }] });
  await expect(going).rejects.toMatchObject({
    code: 'restore_failed',
    retryable: false,
    message: expect.stringContaining('role "ann" does not exist'),
  });
  expect(programs).toHaveLength(1);
});

test('a database that stops in the middle is no restore', async () => {
  const stops: Script = {
    output: async function* output(program) {
      await program.takes(100);
      yield Buffer.alloc(0);
    },
    errors: 'server closed the connection unexpectedly\n',
    code: undefined,
  };
  const { going } = run({ scripts: [stops] });
  await expect(going).rejects.toMatchObject({ code: 'restore_failed' });
  expect(programs).toHaveLength(1);
});

test('what cannot be read after it was restored is no restore', async () => {
  const { going } = run({ scripts: [good, { errors: 'invalid page in block 0', code: 1 }] });
  await expect(going).rejects.toMatchObject({
    code: 'restore_failed',
    message: 'What was restored cannot be read: invalid page in block 0',
  });
});

test('an instance that does not run is no restore', async () => {
  await expect(run({ isRunning: false }).going).rejects.toMatchObject({ code: 'not_serving' });
});

test('one that is cancelled in the middle ends with the reason, after its program is gone', async () => {
  const stop = new AbortController();
  const { going } = run({ scripts: [{ output: () => endless() }], signal: stop.signal });
  await until('the program has got something', async () => (programs[0]?.input.length ?? 0) > 0);
  stop.abort(new Error('cancelled'));
  await expect(going).rejects.toThrow('cancelled');
  expect(programs.map(({ isGone }) => isGone)).toEqual([true]);
});

async function* endless(): AsyncGenerator<Uint8Array> {
  await new Promise(() => undefined);
  yield Buffer.alloc(0);
}

/** A file of Redis with its checksum. */
function redisFile(): Buffer {
  const content = Buffer.concat([Buffer.from('REDIS0012'), randomBytes(5000), Buffer.from([0xff])]);
  return Buffer.concat([content, checksum(content)]);
}

function checksum(content: Buffer): Buffer {
  const { high, low } = crc64(content, emptyCrc64);
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(low, 0);
  bytes.writeUInt32LE(high, 4);
  return bytes;
}

const files = redis.dump?.restore.by === 'files' ? redis.dump.restore.files : [];

test('files are put where the engine reads them at its first start, and belong to its user', async () => {
  const content = redisFile();
  const { going } = run({ engine: 'redis', content });
  await expect(going).resolves.toEqual({ dump_bytes: content.length });
  expect(programs).toEqual([]);
  for (const { path, content: wanted } of files) {
    const found = await readFile(join(folder, path));
    expect(found.equals(wanted.by === 'dump' ? content : Buffer.from(wanted.text))).toBe(true);
    const { uid, gid, mode } = await stat(join(folder, path));
    expect([uid, gid, mode & 0o777]).toEqual([999, 999, 0o600]);
  }
});

test('files that are there already are not written over', async () => {
  const [first] = files;
  await mkdir(join(folder, first?.path ?? '', '..'), { recursive: true });
  await writeFile(join(folder, first?.path ?? ''), 'what is there');
  await expect(run({ engine: 'redis', content: redisFile() }).going).rejects.toThrow(/EEXIST/);
  expect(await readFile(join(folder, first?.path ?? ''), 'utf8')).toBe('what is there');
});

test('a file whose own checksum is wrong is no restore', async () => {
  const content = redisFile();
  content[100] = (content[100] ?? 0) ^ 1;
  await expect(run({ engine: 'redis', content }).going).rejects.toMatchObject({
    code: 'restore_failed',
    message: expect.stringContaining('cut or damaged'),
  });
});
