import { createHash } from 'node:crypto';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Progress } from '../../../agent-protocol/workload.ts';
import { openMock } from '../../../agent/engine/open-mock.ts';
import type { Actual } from '../../../agent/engine/observer.ts';
import { ImportFolder } from '../../../agent/imports/import-folder.ts';
import { Uploads } from '../../../agent/imports/uploads.ts';
import type { ExecOptions } from '../../../agent/runtime/exec.ts';
import type { Volume } from '../../../agent/runtime/runtime.ts';
import { runRestore } from '../../../agent/tasks/restore.ts';
import type { TaskItem } from '../../../agent/tasks/task.ts';
import { crc64, emptyCrc64 } from '../../../databases/crc64.ts';
import { mysql } from '../../../databases/mysql.ts';
import { postgres } from '../../../databases/postgres.ts';
import { systemClock } from '../../../time/clock.ts';
import { until } from '../../harness/until.ts';
import { ScriptedProgram } from './scripted-program.ts';
import type { Script } from './scripted-program.ts';

const gibibyte = 1024 ** 3;
const head = '--\n-- PostgreSQL database dump\n--\n';
const tail = '\n--\n-- PostgreSQL database dump complete\n--\n\n';
const dump = `${head}\\restrict a1\nCREATE TABLE t (n int);\nALTER TABLE t OWNER TO bob;\n${tail}\\unrestrict a1\n`;

let root: string;
let uploads: Uploads;
let folder: ImportFolder;
let programs: ScriptedProgram[];
let freeBytes: number;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-import-'));
  freeBytes = 100 * gibibyte;
  folder = await ImportFolder.open(join(root, 'imports'));
  uploads = await Uploads.open({ folder: join(root, 'uploads'), disk, clock: systemClock });
  programs = [];
});
afterEach(async () => {
  await rm(root, { recursive: true });
  expect(programs.map(({ isGone }) => isGone)).toEqual(programs.map(() => true));
});

const disk = async () => ({ freeBytes, totalBytes: 200 * gibibyte });

/** The program reads all, and says so. */
const good: Script = {
  errors: 'psql:<stdin>:9: WARNING:  setpoint: restored\n',
  output: async function* output(program) {
    await until('the input of the program ends', async () => program.hasInputEnded || program.isGone);
    yield Buffer.from('setpoint: restored\n');
  },
};

interface Around {
  engine?: 'postgres' | 'mysql' | 'redis';
  scripts?: readonly Script[];
  signal?: AbortSignal;
  release?: string;
}

async function run(content: string | Buffer, around: Around = {}): Promise<{ dump_bytes: number }> {
  const id = crypto.randomUUID();
  await writeFile(join(root, 'uploads', id), content);
  return runSource({ by: 'upload', name: id, database: 'app' }, around);
}

let progress: Progress[] = [];

function runSource(
  source: { by: 'upload' | 'path' | 'url'; name: string; database: string },
  { engine = 'postgres', scripts = [good, {}], signal, release = '17.6' }: Around = {},
): Promise<{ dump_bytes: number }> {
  progress = [];
  const work = runRestore({
    runtime: {
      exec: async (_: string, options: ExecOptions, over: AbortSignal) => {
        const program = new ScriptedProgram(options, scripts[programs.length] ?? {}, over);
        programs.push(program);
        return program.process;
      },
      run: async () => ({ exitCode: 0, output: `psql (PostgreSQL) ${release}\n` }),
      volume: async () => ({ path: join(root, 'volume') }) as Volume, // what is read of it
    },
    archiver: openMock({ type: 'mock', clock: systemClock }).archiver,
    observer: { of: () => [{ container: { id: 'container', state: 'running' } } as Actual] }, // what is read of it
    control: { addresses: async () => ['http://127.0.0.1:1/dump'] },
    imports: { folder, uploads, networks: [] },
    disk,
    clock: systemClock,
    random: () => 0,
  });
  const spec = {
    type: 'restore',
    attempt: 1,
    deadline_seconds: 60,
    engine,
    instance: 'instance',
    volume: 'sp-vol-fresh',
    size_bytes: 0,
    dump_bytes: 0,
    checksum_sha256: '',
    source,
  };
  return work(
    { id: 'task', spec } as TaskItem<'restore'>, // the rest is of no matter to it
    { line: () => undefined, learned: () => undefined, at: (now) => void progress.push(now) },
    signal ?? new AbortController().signal,
  );
}

test.each([
  ['as it is', Buffer.from(dump)],
  ['by gzip', gzipSync(dump)],
  ['by zstd', zstdCompressSync(dump)],
])(
  'a dump that is compressed %s goes to the client of the engine, which refuses commands itself',
  async (_, content) => {
    await expect(run(content)).resolves.toEqual({ dump_bytes: dump.length });
    const input = programs[0]?.input ?? '';
    const key = /^\\restrict ([0-9a-f]{64})\n/.exec(input)?.[1];
    const passed = dump.replaceAll(/\\(?:un)?restrict a1/g, '').replace('ALTER TABLE t OWNER TO bob;', '');
    expect(input).toBe(
      `\\restrict ${key}\n${passed}\nCOMMIT;\nSET client_min_messages = warning;\n` +
        "DO $setpoint$ BEGIN RAISE WARNING 'setpoint: restored'; END $setpoint$;\n",
    );
    expect(programs.map(({ options }) => options.command.join(' '))).toEqual([
      expect.stringMatching(/^psql .*--set=ON_ERROR_STOP=1 --dbname=dbname=app /),
      postgres.dump?.check.join(' '),
    ]);
    expect(progress.at(-1)).toMatchObject({ step: 'restoring', done: content.length, total: content.length });
    // until its result is on the disk it may be read again
    expect(await readdir(join(root, 'uploads'))).toHaveLength(1);
  },
);

test('the custom format goes to pg_restore, without owners', async () => {
  await run(Buffer.from('PGDMP and so on'), { scripts: [{ code: 0 }, {}] });
  expect(programs[0]?.options.command).toEqual([
    'pg_restore',
    '--no-password',
    '--no-owner',
    '--no-privileges',
    '--exit-on-error',
    '--dbname=dbname=app',
  ]);
  expect(programs[0]?.input).toBe('PGDMP and so on');
});

test('a dump of MariaDB goes into MySQL without its first line, and passwords stay', async () => {
  const content =
    '/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19\nCREATE TABLE t (n int);\n-- Dump completed\n';
  await run(content, { engine: 'mysql', scripts: [{}, good, {}] });
  expect(programs[1]?.options.command).toEqual(expect.arrayContaining(['mysql', '--binary-mode', '--database=app']));
  const input = programs[1]?.input ?? '';
  expect(input).not.toContain('sandbox');
  expect(input).toMatch(
    /^CREATE TEMPORARY TABLE mysql.setpoint_kept [^]*CREATE TABLE t[^]*UPDATE mysql.user[^]*restored/,
  );
  expect(programs[2]?.options.command).toEqual(mysql.dump?.check);
});

test('a file of Redis is put where the engine reads it', async () => {
  const content = Buffer.concat([Buffer.from('REDIS0012'), Buffer.from([0xff])]);
  const { high, low } = crc64(content, emptyCrc64);
  const sum = Buffer.alloc(8);
  sum.writeUInt32LE(low, 0);
  sum.writeUInt32LE(high, 4);
  const whole = Buffer.concat([content, sum]);
  await run(gzipSync(whole), { engine: 'redis' });
  const found = await readFile(join(root, 'volume', 'appendonlydir', 'appendonly.aof.1.base.rdb'));
  expect(createHash('sha256').update(found).digest('hex')).toBe(createHash('sha256').update(whole).digest('hex'));
  expect(programs).toEqual([]);
});

test.each<[string, string | Buffer, RegExp]>([
  ['a dump that is cut', `${head}SELECT 1;\n`, /It is cut: it does not end/],
  ['a compressed file that is cut', gzipSync(dump).subarray(0, -10), /cut or damaged/],
  ['a compressed file that is cut, of zstd', zstdCompressSync(dump).subarray(0, -10), /cut or damaged/],
  ['a dump that starts a program', `${head}\\! touch /tmp/x\n${tail}`, /Line 4 has \\!, a command of psql/],
  ['a dump of another engine', '-- MySQL dump 10.13\n', /the database is of postgres/],
  ['nothing', '', /It is empty/],
])('%s fails, and the program never reads what makes it count', async (_, content, why) => {
  await expect(run(content)).rejects.toMatchObject({ code: 'restore_failed', message: expect.stringMatching(why) });
  expect(programs.filter(({ input }) => input.includes('setpoint: restored'))).toEqual([]);
});

test('what the engine refuses is the reason', async () => {
  const errors = 'psql:<stdin>:3: NOTICE:  x\npsql:<stdin>:4: ERROR:  relation "t" exists\n';
  await expect(run(dump, { scripts: [{ ...good, errors, code: 3 }] })).rejects.toThrow(
    'PostgreSQL refused a part of the dump: psql:<stdin>:4: ERROR:  relation "t" exists',
  );
});

test('a client that ends with 0 before all was read fails', async () => {
  await expect(run(dump, { scripts: [{ ...good, errors: '' }] })).rejects.toThrow(
    'did not come to the end of the dump',
  );
});

test('a file below the folder is read from there, and stays', async () => {
  await writeFile(join(root, 'imports', 'dump.sql'), dump);
  await runSource({ by: 'path', name: 'dump.sql', database: 'app' });
  expect(await readdir(join(root, 'imports'))).toEqual(['dump.sql']);
  await expect(runSource({ by: 'path', name: '../x', database: 'app' })).rejects.toMatchObject({
    code: 'restore_failed',
    message: expect.stringContaining('is not below it'),
  });
});

test('an address that may not be fetched is refused', async () => {
  await expect(runSource({ by: 'url', name: '', database: 'app' })).rejects.toMatchObject({
    code: 'restore_failed',
    message: expect.stringContaining('may not be fetched from 127.0.0.1'),
  });
});

test('a disk without room is refused before anything is read', async () => {
  freeBytes = 10;
  await expect(run(dump)).rejects.toMatchObject({ code: 'no_space' });
  expect(programs).toEqual([]);
});

test('what was cancelled can be read again', async () => {
  const stop = new AbortController();
  const endless: Script = {
    output: async function* output() {
      await new Promise(() => undefined);
      yield Buffer.alloc(0);
    },
  };
  const going = run(dump, { scripts: [endless], signal: stop.signal });
  await until('the program has got something', async () => (programs[0]?.input.length ?? 0) > 0);
  stop.abort(new Error('cancelled'));
  await expect(going).rejects.toThrow('cancelled');
  expect(await readdir(join(root, 'uploads'))).toHaveLength(1);
});
