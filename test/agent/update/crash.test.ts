import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { diskSpace } from '../../../agent/disk/disk-guard.ts';
import { Updater } from '../../../agent/update/updater.ts';
import { systemClock } from '../../../time/clock.ts';
import { smallDisk } from '../../harness/small-disk.ts';
import { smallRelease, smallReleaseKey } from '../../harness/small-release.ts';
import { until } from '../../harness/until.ts';
import { releaseServer } from './release-server.ts';

const updating = new URL('updating.ts', import.meta.url).pathname;
const supervise = new URL('../../../manifests/install/agent/supervise.sh', import.meta.url);
const update = { version: '1.1.0', requestedAt: '2030-01-01T00:00:00.000Z' };

/** An agent that notes its start; the later one connects at once, which ends its trial. */
const agent = (version: string): string =>
  [
    '#!/bin/sh',
    `echo ${version} >>"$SETPOINT_AGENT_HOME/ran"`,
    'if [ "$(cat "$SETPOINT_AGENT_HOME/current")" = 1.1.0 ]; then rm -f "$SETPOINT_AGENT_HOME/trial"; fi',
    'exec sleep 1000',
    '',
  ].join('\n');

async function installation(home: string): Promise<void> {
  await mkdir(join(home, 'versions/1.0.0'), { recursive: true });
  const executable = join(home, 'versions/1.0.0/setpoint-agent');
  await writeFile(executable, agent('1.0.0'));
  await chmod(executable, 0o755);
  await writeFile(join(home, 'current'), '1.0.0\n');
  await cp(supervise, join(home, 'supervise'));
  await chmod(join(home, 'supervise'), 0o755);
}

const read = async (path: string): Promise<string> => (await readFile(path, 'utf8').catch(() => '')).trim();

/** The version that the supervisor starts, as after a start of the machine. */
async function started(home: string): Promise<string> {
  await rm(join(home, 'ran'), { force: true });
  const supervisor = spawn('sh', [join(home, 'supervise')], { stdio: 'ignore', detached: true });
  const exited = once(supervisor, 'exit');
  try {
    return await until('an agent has started', async () => (await read(join(home, 'ran'))) || undefined);
  } finally {
    process.kill(-supervisor.pid!, 'SIGKILL'); // with its agent
    await exited;
  }
}

it('an update that is killed before any of its changes leaves an agent that works, and is completed by the next one', { tags: 'long', timeout: 240_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-update-'));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const release = cleanup.use(await smallRelease('1.1.0', { 'linux-x64': agent('1.1.0') }));
  const server = cleanup.use(await releaseServer(release.folder));
  const run = async (home: string, nth: number): Promise<string> => {
    const args = ['--disable-warning=ExperimentalWarning', updating, home, server.url, smallReleaseKey, String(nth)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    const out = await text(child.stdout);
    const [, signal] = (await exited) as [number | null, NodeJS.Signals | null];
    return signal ?? out.trim();
  };
  const found: string[] = [];
  for (let nth = 0, ended = ''; ended !== 'chosen'; nth++) {
    const home = join(folder, String(nth));
    await installation(home);
    ended = await run(home, nth);
    expect(['SIGKILL', 'chosen']).toContain(ended);
    const [current, previous, trial] = await Promise.all(
      ['current', 'previous', 'trial'].map((name) => read(join(home, name))),
    );
    // what is not proved yet can be gone back from
    if (current !== '1.0.0')
      expect([current, previous, trial], `kill before ${nth}`).toEqual(['1.1.0', '1.0.0', '1.1.0']);
    const version = await started(home);
    found.push(version);
    if (version !== '1.0.0') continue;
    // the agent that goes on is asked for the same update
    expect(await run(home, -1), `after a kill before change ${nth}`).toBe('chosen');
    expect(await read(join(home, 'current')), `after a kill before change ${nth}`).toBe('1.1.0');
  }
  // Only the last changes come after the one that decides.
  expect(found.length).toBeGreaterThan(25);
  expect(found.at(-1)).toBe('1.1.0');
  expect(found.lastIndexOf('1.0.0')).toBeLessThan(found.indexOf('1.1.0'));
});

it('an update for which the disk has too little room leaves the agent that runs, whenever the disk fills up', async () => {
  await using disk = await smallDisk(16 * 1024 * 1024);
  await using release = await smallRelease('1.1.0', { 'linux-x64': agent('1.1.0').padEnd(4 * 1024 * 1024, '#') });
  await using server = await releaseServer(release.folder);
  const home = join(disk.path, 'home');
  await installation(home);
  const attempt = async (requestedAt: string, room: typeof diskSpace): Promise<string> => {
    let chosen = false;
    await using updater = new Updater({
      home,
      version: '1.0.0',
      platform: 'linux-x64',
      keys: [smallReleaseKey],
      urls: [server.url],
      disk: () => room([home]),
      askVersion: async () => '1.1.0',
      chosen: () => void (chosen = true),
      clock: systemClock,
      random: () => 0,
      log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
    });
    updater.ask({ ...update, requestedAt });
    return await until('the update ends', async () => updater.failure?.reason ?? (chosen && 'chosen'));
  };
  await disk.fill();
  expect(await attempt('1', diskSpace)).toBe('DiskFull');
  expect(server.asked).toEqual(['/agent/manifest']); // it was known before anything was fetched
  // the room is taken while the update is fetched
  expect(await attempt('2', async () => ({ freeBytes: 1e9, totalBytes: 1e9 }))).toBe('DiskFull');
  expect(await read(join(home, 'current'))).toBe('1.0.0');
  await disk.free();
  expect(await attempt('3', diskSpace)).toBe('chosen');
  expect(await read(join(home, 'current'))).toBe('1.1.0');
});
