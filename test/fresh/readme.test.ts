import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startBareMachine } from './bare-machine.ts';
import type { BareMachine } from './bare-machine.ts';
import { until } from '../harness/until.ts';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const place = '/root/setpoint';

test.each(['bookworm', 'trixie'])('the commands of the README work on a bare Debian %s', async (suite) => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-fresh-'));
  stack.defer(() => rm(folder, { recursive: true }));
  const clone = join(folder, 'setpoint');
  await execute('git', ['clone', '--quiet', '--no-hardlinks', root, clone]);
  const machine = stack.use(await startBareMachine(suite));
  await machine.copy(clone, place);

  const devLog = join(folder, 'dev.log');
  const dev = machine.start(['make', '-C', place, 'dev'], devLog);
  await Promise.race([
    until('`make dev` has deployed its example, which answers', () => isUp(machine, devLog), {
      timeoutMs: 600_000,
      explain: () => tail(devLog),
    }),
    dev.ended.then(async (code) => expect.fail(`make dev ended with ${code}: ${await tail(devLog)}`)),
  ]);
  await machine.run('node', '-e', interruptDev);
  expect(await dev.ended, await tail(devLog)).toBe(0);

  const testLog = join(folder, 'test.log');
  const tests = machine.start(['make', '-C', place, 'test'], testLog);
  expect(await tests.ended, await tail(testLog)).toBe(0);
  expect((await tail(testLog)).trim()).toMatch(/^\d+ passed, 0 failed$/m);
});

/** Ends `setpoint dev` as Ctrl-C does; the machine has no program that finds processes. */
const interruptDev = `
  const { readdirSync, readFileSync } = require('node:fs');
  for (const pid of readdirSync('/proc').filter((name) => Number(name) > 0)) {
    const argv = readFileSync('/proc/' + pid + '/cmdline', 'utf8').split('\\0');
    if (argv.includes('${place}/cli/setpoint.ts') && argv.includes('dev')) process.kill(Number(pid), 'SIGINT');
  }`;

async function isUp(machine: BareMachine, devLog: string): Promise<boolean> {
  if (!(await tail(devLog)).includes('Stop with Ctrl-C')) return false;
  const body = await machine.run('curl', '--silent', '--fail', 'http://127.0.0.1:8080/');
  return body.includes('Hello from Setpoint');
}

async function tail(path: string): Promise<string> {
  return (await readFile(path, 'utf8').catch(() => '')).slice(-20_000);
}
