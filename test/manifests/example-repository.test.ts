import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ensureExampleRepository } from '../../manifests/example-repository.ts';
import type { Run } from '../../manifests/example-repository.ts';

const execute = promisify(execFile);
const run: Run = (program, argv, { cwd, env }) =>
  execute(program, argv, { cwd, env: { PATH: process.env['PATH'] ?? '', ...env } });
const git = async (cwd: string, ...argv: string[]) => (await execute('git', argv, { cwd })).stdout.trim();

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-example-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('the example is one commit on main whose id does not depend on the machine', async () => {
  const [one, two] = [join(folder, 'deep', 'one'), join(folder, 'two')];
  await ensureExampleRepository(one, run);
  await ensureExampleRepository(two, run);
  expect(await git(one, 'rev-parse', 'main')).toBe(await git(two, 'rev-parse', 'main'));
  expect(await git(one, 'rev-list', '--count', 'main')).toBe('1');
  expect(await git(one, 'status', '--porcelain')).toBe('');
  expect((await git(one, 'ls-files')).split('\n')).toEqual([
    'Dockerfile',
    'application.yaml',
    'package.json',
    'server.js',
  ]);
});

test('a repository that exists keeps what was committed to it', async () => {
  const directory = join(folder, 'hello');
  await ensureExampleRepository(directory, run);
  await writeFile(join(directory, 'server.js'), 'throw new Error();\n');
  await git(directory, 'commit', '--quiet', '--all', '--message=Break it');
  const head = await git(directory, 'rev-parse', 'HEAD');
  await ensureExampleRepository(directory, run);
  expect(await git(directory, 'rev-parse', 'HEAD')).toBe(head);
  expect(await readFile(join(directory, 'server.js'), 'utf8')).toBe('throw new Error();\n');
});

test('what an interrupted attempt left behind is replaced', async () => {
  const directory = join(folder, 'hello');
  const failing: Run = async (program, argv, options) => {
    if (argv[0] === 'commit') throw new Error('Killed');
    await run(program, argv, options);
  };
  await expect(ensureExampleRepository(directory, failing)).rejects.toThrow('Killed');
  await expect(git(directory, 'log')).rejects.toThrow();
  await ensureExampleRepository(directory, run);
  expect(await git(directory, 'rev-list', '--count', 'HEAD')).toBe('1');
});
