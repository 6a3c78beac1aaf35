import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { endTrial } from '../../agent/update/trial.ts';
import { until } from '../harness/until.ts';

const source = new URL('../../manifests/install/agent/supervise.sh', import.meta.url);
const shells = ['dash', 'bash', 'busybox'] as const;

let home: string;
let supervisor: ChildProcess | undefined;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'setpoint-supervise-'));
  const text = await readFile(source, 'utf8');
  // the times and sizes of a test
  const quick = text
    .replace('trial_seconds=60', 'trial_seconds=2')
    .replace('log_bytes=10000000', 'log_bytes=1000')
    .replace('pause 5', 'pause 0.1');
  expect(quick).not.toBe(text);
  await writeFile(join(home, 'supervise'), quick, { mode: 0o755 });
});
afterEach(async () => {
  await end('SIGKILL');
  await rm(home, { recursive: true, force: true });
});

/** Writes an agent that notes its starts in the file `ran` and goes on with these lines. */
async function agent(version: string, ...lines: string[]): Promise<void> {
  await mkdir(join(home, 'versions', version), { recursive: true });
  const path = join(home, 'versions', version, 'setpoint-agent');
  await writeFile(path, ['#!/bin/sh', `echo ${version} $$ >>'${home}/ran'`, ...lines, ''].join('\n'));
  await chmod(path, 0o755);
}

const runs = 'exec sleep 1000';
const write = (name: string, text: string) => writeFile(join(home, name), `${text}\n`);
const read = async (name: string): Promise<string> => (await readFile(join(home, name), 'utf8').catch(() => '')).trim();

function start(shell: (typeof shells)[number] = 'dash', env: Record<string, string> = {}): void {
  const argv = shell === 'busybox' ? ['sh', join(home, 'supervise')] : [join(home, 'supervise')];
  supervisor = spawn(shell, argv, { stdio: 'ignore', env: { PATH: process.env['PATH'], ...env }, detached: true });
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const it = supervisor;
  if (it?.pid === undefined || it.exitCode !== null || it.signalCode !== null) return;
  const exited = once(it, 'exit');
  // its whole group at the end of a test: no agent stays behind
  process.kill(signal === 'SIGKILL' ? -it.pid : it.pid, signal);
  await exited;
}

const started = async (): Promise<string[]> => (await read('ran')).split('\n').map((line) => line.split(' ')[0] ?? '');

/** Resolves when that version has started last, with the id of its process. */
function runsNow(version: string): Promise<number> {
  return until(`version ${version} runs`, async () => {
    const [last, id] = (await read('ran')).split('\n').at(-1)?.split(' ') ?? [];
    return last === version && Number(id);
  });
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch {
    return false;
  }
}

it.each(shells)('starts the agent again when it ends, and ends it by TERM: %s', async (shell) => {
  await agent('1.0.0', runs);
  await write('current', '1.0.0');
  start(shell);
  const first = await runsNow('1.0.0');
  process.kill(first, 'SIGKILL');
  const second = await until('it runs again', async () => {
    const id = await runsNow('1.0.0');
    return id !== first && id;
  });
  await end('SIGTERM');
  expect(isAlive(second)).toBe(false);
  expect(await started()).toEqual(['1.0.0', '1.0.0']);
});

it.each(shells)('goes back when the version on trial ends before it has connected: %s', async (shell) => {
  await agent('1.0.0', runs);
  await agent('1.1.0', 'exit 1');
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.1.0');
  start(shell);
  await runsNow('1.0.0');
  expect(await started()).toEqual(['1.1.0', '1.0.0']);
  expect([await read('current'), await read('failed'), await read('trial')]).toEqual(['1.0.0', '1.1.0', '']);
});

it.each(shells)('goes back when the version on trial runs and does not connect: %s', async (shell) => {
  await agent('1.0.0', runs);
  await agent('1.1.0', runs);
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.1.0');
  start(shell);
  const later = await runsNow('1.1.0');
  await runsNow('1.0.0');
  expect(isAlive(later)).toBe(false);
  expect([await read('current'), await read('failed'), await read('trial')]).toEqual(['1.0.0', '1.1.0', '']);
});

it('tries a version again while it cannot note that it goes back, as on a full disk, and then goes back', async () => {
  await agent('1.0.0', runs);
  await agent('1.1.0', runs);
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.1.0');
  await mkdir(join(home, 'current.new')); // what cannot be written
  start();
  await until('it was tried twice', async () => (await started()).length === 2);
  expect([await read('current'), await read('failed'), await read('trial')]).toEqual(['1.1.0', '', '1.1.0']);
  await rmdir(join(home, 'current.new'));
  await runsNow('1.0.0');
  expect(await started()).toEqual(['1.1.0', '1.1.0', '1.0.0']);
  expect([await read('current'), await read('failed'), await read('trial')]).toEqual(['1.0.0', '1.1.0', '']);
});

it('goes back from a version that cannot be executed at all', async () => {
  await agent('1.0.0', runs);
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.1.0');
  start();
  await runsNow('1.0.0');
  expect(await read('failed')).toBe('1.1.0');
});

it('keeps the version on trial once that has connected', async () => {
  await agent('1.0.0', runs);
  await agent('1.1.0', runs);
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.1.0');
  start();
  const id = await runsNow('1.1.0');
  await endTrial(home, '1.0.0'); // a connection of the version before it says nothing about this one
  expect(await read('trial')).toBe('1.1.0');
  await endTrial(home, '1.1.0');
  // longer than a trial lasts: it is started again, and by that time would have gone back
  process.kill(id, 'SIGKILL');
  await until('it runs again', async () => (await runsNow('1.1.0')) !== id);
  expect([await read('current'), await read('failed')]).toEqual(['1.1.0', '']);
  await endTrial(home, '1.1.0');
});

it('runs the version that worked after an update was cut off before it took effect', async () => {
  await agent('1.0.0', runs);
  await write('previous', '1.0.0');
  await write('trial', '1.1.0');
  await write('current', '1.0.0');
  start();
  await runsNow('1.0.0');
  await until('the trial is over', async () => (await read('trial')) === '');
  expect([await read('current'), await read('failed')]).toEqual(['1.0.0', '']);
});

it('has nothing to go back to at the first installation: the agent is started until it connects', async () => {
  await agent('1.0.0', `[ "$(wc -l <'${home}/ran')" -ge 3 ] || exit 1`, runs);
  await write('trial', '1.0.0');
  await write('current', '1.0.0');
  start();
  await until('it was started three times', async () => (await started()).length === 3);
  expect([await read('current'), await read('failed'), await read('trial')]).toEqual(['1.0.0', '', '1.0.0']);
});

it('gives the agent its environment and its own folder', async () => {
  await agent('1.0.0', `echo "$SETPOINT_SERVER $SETPOINT_AGENT_HOME" >'${home}/env'`, runs);
  await write('current', '1.0.0');
  start('dash', { SETPOINT_SERVER: 'https://setpoint.test/default' });
  await until('it runs', async () => (await read('env')) !== '');
  expect(await read('env')).toBe(`https://setpoint.test/default ${home}`);
});

it('bounds the log that it keeps without systemd', async () => {
  await agent('1.0.0', 'while :; do echo a line of the agent; sleep 0.01; done');
  await write('current', '1.0.0');
  const log = join(home, 'agent.log');
  start('dash', { SETPOINT_AGENT_LOG: log });
  await until('the log was put aside twice', async () => {
    const aside = await stat(`${log}.1`).catch(() => undefined);
    return aside !== undefined && aside.mtimeMs - aside.birthtimeMs > 100;
  });
  expect((await stat(log)).size).toBeLessThan(10_000);
  expect((await readdir(home)).filter((name) => name.startsWith('agent.log')).toSorted()).toEqual([
    'agent.log',
    'agent.log.1',
  ]);
});
