import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { UpdateFailure } from '../../../agent-protocol/messages.ts';
import { isLater } from '../../../agent-protocol/release-manifest.ts';
import type { AgentUpdate } from '../../../agent-protocol/server-settings.ts';
import { Updater } from '../../../agent/update/updater.ts';
import type { UpdaterOptions } from '../../../agent/update/updater.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { failNextOf } from '../../harness/failing-files.ts';
import { smallRelease, smallReleaseKey } from '../../harness/small-release.ts';
import type { SmallRelease } from '../../harness/small-release.ts';
import { until } from '../../harness/until.ts';
import { releaseServer } from './release-server.ts';
import type { ReleaseServer } from './release-server.ts';

const platform = 'linux-x64';
const content = 'an agent that knows more';
const update: AgentUpdate = { version: '1.1.0', requestedAt: '2030-01-01T00:00:00.000Z' };
const again: AgentUpdate = { ...update, requestedAt: '2030-01-01T00:10:00.000Z' };
/** Time goes by fifty times as fast as the updater means. */
const fast: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms / 50, fn) };

let home: string;
let release: SmallRelease;
let server: ReleaseServer;
let updaters: Updater[];
let chosen: number;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'setpoint-updater-'));
  await mkdir(join(home, 'versions/1.0.0'), { recursive: true });
  await writeFile(join(home, 'versions/1.0.0/setpoint-agent'), 'the agent that runs');
  await writeFile(join(home, 'current'), '1.0.0\n');
  release = await smallRelease('1.1.0', { [platform]: content });
  server = await releaseServer(release.folder);
  updaters = [];
  chosen = 0;
});
afterEach(async () => {
  for (const updater of updaters) await updater[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await release[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

function updaterOf(options: Partial<UpdaterOptions> = {}): Updater {
  const updater = new Updater({
    home,
    version: '1.0.0',
    platform,
    keys: [smallReleaseKey],
    urls: [server.url],
    disk: async () => ({ freeBytes: 1e9, totalBytes: 1e9 }),
    askVersion: async () => '1.1.0',
    chosen: () => void chosen++,
    clock: systemClock,
    random: () => 0.5,
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
    ...options,
  });
  updaters.push(updater);
  return updater;
}

/** How an update ends: with a failure, or `chosen`. */
function ends(updater: Updater, asked: AgentUpdate = update): Promise<UpdateFailure | 'chosen'> {
  const before = chosen;
  updater.ask(asked);
  return until('the update ends', async () => updater.failure ?? (chosen > before && 'chosen'));
}

const attempt = (options: Partial<UpdaterOptions> = {}): Promise<UpdateFailure | 'chosen'> => ends(updaterOf(options));
const read = async (name: string): Promise<string> => (await readFile(join(home, name), 'utf8').catch(() => '')).trim();

/** Expects the agent to go on as if nothing had been asked for. */
async function expectUnchanged(): Promise<void> {
  expect([await read('current'), await read('trial')]).toEqual(['1.0.0', '']);
  expect(await read('versions/1.0.0/setpoint-agent')).toBe('the agent that runs');
  for (const name of await readdir(join(home, 'versions')))
    expect(await readdir(join(home, 'versions', name)), name).toEqual(name === '1.0.0' ? ['setpoint-agent'] : []);
  expect(chosen).toBe(0);
}

async function expectUpdated(): Promise<void> {
  expect([await read('current'), await read('previous'), await read('trial')]).toEqual(['1.1.0', '1.0.0', '1.1.0']);
  expect(await read('versions/1.1.0/setpoint-agent')).toBe(content);
  expect((await readdir(join(home, 'versions'))).toSorted()).toEqual(['1.0.0', '1.1.0']);
}

describe('an update', () => {
  it('is fetched, verified and chosen, on trial', async () => {
    await writeFile(join(home, 'trial'), '1.0.0\n'); // its own: the control plane has welcomed it
    await mkdir(join(home, 'versions/0.9.0'));
    await writeFile(join(home, 'versions/0.9.0/setpoint-agent'), 'an agent of long ago');
    expect(await attempt()).toBe('chosen');
    await expectUpdated();
    expect((await stat(join(home, 'versions/1.1.0/setpoint-agent'))).mode & 0o777).toBe(0o755);
    expect((await stat(join(home, 'versions/1.1.0'))).mode & 0o777).toBe(0o755);
    expect((await stat(join(home, 'current'))).mode & 0o777).toBe(0o644);
    expect((await readdir(home)).toSorted()).toEqual(['asked', 'current', 'previous', 'trial', 'versions']);
    expect(server.asked).toEqual(['/agent/manifest', `/agent/setpoint-agent-1.1.0-${platform}`]);
  });

  it('is unpacked on its way', async () => {
    server.instead = (path, response) => {
      if (path === '/agent/manifest') return false;
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(content));
      return true;
    };
    expect(await attempt()).toBe('chosen');
    await expectUpdated();
  });

  it('is fetched once: what was there whole is taken, and what was cut off is not', async () => {
    await mkdir(join(home, 'versions/1.1.0'));
    await writeFile(join(home, 'versions/1.1.0/setpoint-agent'), content);
    await writeFile(join(home, 'versions/1.1.0/setpoint-agent.part'), content.slice(5));
    expect(await attempt()).toBe('chosen');
    await expectUpdated();
    expect(server.asked).toEqual(['/agent/manifest']);
  });

  it('is fetched again if what was there is another file', async () => {
    await mkdir(join(home, 'versions/1.1.0'));
    await writeFile(join(home, 'versions/1.1.0/setpoint-agent'), content.replace('more', 'less'));
    expect(await attempt()).toBe('chosen');
    await expectUpdated();
  });

  it('comes from the replica that has it', async () => {
    await using older = await smallRelease('1.0.0', { [platform]: 'the agent that runs' });
    await using other = await releaseServer(older.folder);
    expect(await attempt({ urls: ['http://127.0.0.1:9/default', other.url, server.url] })).toBe('chosen');
    await expectUpdated();
  });

  it('is fetched below the path of the address, if that has one', async () => {
    server.instead = (path, response) => {
      const prefix = '/behind/a/proxy';
      if (!path.startsWith(prefix)) response.writeHead(404).end();
      else response.writeHead(307, { location: path.slice(prefix.length) }).end();
      return true;
    };
    const url = server.url.replace('/default', '/behind/a/proxy/default/');
    await attempt({ urls: [url], clock: fast });
    expect(new Set(server.asked)).toEqual(new Set(['/behind/a/proxy/agent/manifest'])); // and no other address was followed
    await expectUnchanged();
  });

  it('ends with the agent', async () => {
    const held = Promise.withResolvers<void>();
    server.instead = (path) => {
      if (path !== '/agent/manifest') held.resolve();
      return path !== '/agent/manifest';
    };
    const updater = updaterOf();
    updater.ask(update);
    await held.promise;
    await updater[Symbol.asyncDispose]();
    expect(updater.failure).toBeUndefined();
    await expectUnchanged();
  });
});

describe('an update is refused', () => {
  const changed = (path: string, change: (text: string) => string) => async () => {
    const file = join(release.folder, path);
    await writeFile(file, change(await readFile(file, 'utf8')));
  };
  const file = `setpoint-agent-1.1.0-${platform}`;

  it.each<[string, string, RegExp, () => Promise<unknown>, Partial<UpdaterOptions>?]>([
    ['whose bytes were changed', 'OtherFile', /its SHA-256 is/, changed(file, (it) => it.replace('more', 'less'))],
    ['that is longer', 'OtherFile', /more than 24 bytes/, changed(file, (it) => `${it}.`)],
    ['that is shorter', 'OtherFile', /23 bytes, and not 24/, changed(file, (it) => it.slice(1))],
    [
      'whose manifest was changed',
      'NotTrusted',
      /signature/,
      changed('manifest.json', (it) => it.replace('0.1.0', '0.1.1')),
    ],
    ['that another key signed', 'NotTrusted', /unknown key/, async () => undefined, { keys: ['another'] }],
    ['that no key of this agent signed', 'NotTrusted', /unknown key/, async () => undefined, { keys: [] }],
    ['that is no manifest', 'NoManifest', /not the manifest/, changed('manifest.json', () => '<html>')],
    ['whose manifest is huge', 'NoManifest', /too large/, changed('manifest.json', (it) => it.padEnd(200_000))],
    [
      'in place of which an older release is repeated',
      'OtherRelease',
      /has the release 0\.9\.0, and 1\.1\.0 was asked for/,
      () => release.publish('0.9.0', { [platform]: 'a known hole' }),
    ],
    [
      'that needs a version between them',
      'VersionBetweenNeeded',
      /only replace 1\.0\.1 and later, and 1\.0\.0 runs/,
      () => release.publish('1.1.0', { [platform]: content }, { min_version: '1.0.1' }),
    ],
    [
      'that has no executable for this machine',
      'NoSuchPlatform',
      /no executable for linux-x64/,
      () => release.publish('1.1.0', { 'linux-arm64': content }),
    ],
    [
      'that the disk has no room for',
      'DiskFull',
      /make room/,
      async () => undefined,
      { disk: async () => ({ freeBytes: 40, totalBytes: 1e9 }) },
    ],
    [
      'that does not run here',
      'DoesNotRun',
      /libatomic\.so\.1.*It needs glibc/,
      async () => undefined,
      { askVersion: () => Promise.reject(new Error('libatomic.so.1: cannot open')) },
    ],
    [
      'that says it is another one',
      'DoesNotRun',
      /version 1\.0\.9/,
      async () => undefined,
      { askVersion: async () => '1.0.9' },
    ],
    [
      'to an agent that was started by hand',
      'NotInstalled',
      /runs another version/,
      () => writeFile(join(home, 'current'), '0.9.0\n'),
    ],
  ])('%s', async (_, reason, message, before, options = {}) => {
    await before();
    expect(await attempt(options)).toMatchObject({
      version: '1.1.0',
      requested_at: update.requestedAt,
      reason,
      message: expect.stringMatching(message),
    });
    await writeFile(join(home, 'current'), '1.0.0\n');
    await expectUnchanged();
    if (reason === 'DiskFull') expect(server.asked).toEqual(['/agent/manifest']);
  });

  it('by another key than the one that signed the own release, also if both are known to the machine', async () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    await using foreign = await smallRelease('1.1.0', { [platform]: content }, privateKey);
    await using other = await releaseServer(foreign.folder);
    expect(await attempt({ urls: [other.url] })).toMatchObject({ reason: 'NotTrusted' });
    await expectUnchanged();
  });

  it.each(['1.0.0', '0.9.9', '1.0', '../../etc', '99999.0.0-x'])('that is no later version: %s', async (version) => {
    expect(await ends(updaterOf(), { ...update, version })).toMatchObject({ reason: 'NotLater', version });
    expect(server.asked).toEqual([]);
    await expectUnchanged();
  });
});

describe('a download that fails', () => {
  it('is tried again, and then succeeds', async () => {
    let times = 0;
    server.instead = (path, response) => {
      if (path === '/agent/manifest' || ++times > 2) return false;
      response.writeHead(200, { 'content-length': content.length });
      response.write(content.slice(0, 9), () => response.destroy());
      return true;
    };
    expect(await attempt({ clock: fast })).toBe('chosen');
    await expectUpdated();
  });

  describe('for which the control plane has no room yet', () => {
    /** The first answers for the executable have that status; returns the pauses that the updater makes. */
    const refusing = (times: number, status: number, headers: Record<string, string>) => {
      let left = times;
      server.instead = (path, response) => {
        if (path === '/agent/manifest' || left === 0) return false;
        left -= 1;
        response.writeHead(status, headers).end();
        return true;
      };
      const pauses: number[] = [];
      let next: number | undefined;
      const log = pino({}, { write: (line: string) => noted(JSON.parse(line)) });
      const noted = ({ retryInMs }: { retryInMs?: number }): void => {
        if (retryInMs !== undefined) pauses.push(retryInMs);
        next = retryInMs;
      };
      /** Its pauses take no time; deadlines do. */
      const swift: Clock = {
        ...systemClock,
        timer(ms, fn) {
          const isPause = ms === next;
          if (isPause) next = undefined;
          return systemClock.timer(isPause ? 0 : ms, fn);
        },
      };
      return { pauses, options: { clock: swift, log } };
    };

    it.each([429, 503])('waits its turn as long as it is told to, however often: %i', async (status) => {
      const { pauses, options } = refusing(20, status, { 'retry-after': '40' });
      expect(await attempt(options)).toBe('chosen');
      await expectUpdated();
      expect(pauses).toEqual(Array.from({ length: 20 }, () => 50_000));
    });

    it('waits for an hour at most, and then fails as one that cannot be fetched', async () => {
      const { pauses, options } = refusing(1000, 429, { 'retry-after': '500' });
      expect(await attempt(options)).toMatchObject({
        reason: 'DownloadFailed',
        message: expect.stringContaining('429'),
      });
      expect(pauses.slice(0, -2).reduce((sum, ms) => sum + ms, 0)).toBe(3_600_000);
      expect(pauses.slice(-2)).toEqual([10_000, 60_000]);
      await expectUnchanged();
    });

    it('is no reason to wait where the answer does not say how long, but for too many', async () => {
      expect(await attempt(refusing(1, 429, {}).options)).toBe('chosen');
      const { pauses, options } = refusing(3, 503, { 'retry-after': 'soon' });
      server.asked.length = 0;
      await writeFile(join(home, 'current'), '1.0.0\n');
      await rm(join(home, 'versions/1.1.0'), { recursive: true });
      expect(await attempt(options)).toMatchObject({ reason: 'DownloadFailed' });
      expect(pauses).toEqual([10_000, 60_000]);
    });

    it('is given up for one that is asked for meanwhile', async () => {
      refusing(1, 429, { 'retry-after': '40' });
      const waits = Promise.withResolvers<void>();
      const still: Clock = {
        ...systemClock,
        timer(ms, fn) {
          if (ms !== 50_000) return systemClock.timer(ms, fn);
          waits.resolve();
          return () => undefined;
        },
      };
      const updater = updaterOf({ clock: still });
      updater.ask(update);
      await waits.promise;
      expect(await ends(updater, again)).toBe('chosen');
    });
  });

  it.each<[string, RegExp, (response: ServerResponse) => void]>([
    [
      'as it is cut off each time',
      /could not be fetched/,
      (response) => {
        response.writeHead(200, { 'content-length': content.length });
        response.write(content.slice(0, 9), () => response.destroy());
      },
    ],
    [
      'as nothing more comes',
      /nothing came for 60 s/,
      (response) => {
        response.writeHead(200, { 'content-length': content.length });
        response.write(content.slice(0, 9));
      },
    ],
    ['as it is refused', /status 503/, (response) => void response.writeHead(503).end()],
    [
      'as it is elsewhere',
      /redirect/,
      (response) => void response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
    ],
  ])('three times is reported: %s', async (_, message, file) => {
    server.instead = (path, response) => {
      if (path === '/agent/manifest') return false;
      file(response);
      return true;
    };
    const failure = await attempt({ clock: fast });
    expect(failure).toMatchObject({ reason: 'DownloadFailed', message: expect.stringMatching(message) });
    expect(server.asked.filter((path) => path !== '/agent/manifest')).toHaveLength(3);
    await expectUnchanged();
  });
});

describe('an update that failed', () => {
  const failing = async (): Promise<Updater> => {
    const updater = updaterOf({ askVersion: () => Promise.reject(new Error('no')) });
    await ends(updater);
    return updater;
  };

  it('is not tried again until it is asked for anew', async () => {
    const updater = await failing();
    const asked = server.asked.length;
    updater.ask({ ...update });
    expect(updater.failure).toMatchObject({ requested_at: update.requestedAt });
    expect(server.asked).toHaveLength(asked);
    expect(await ends(updater, again)).toMatchObject({ requested_at: again.requestedAt });
    expect(server.asked.length).toBeGreaterThan(asked);
  });

  it('on trial is reported by the version before, and tried again once it is asked for anew', async () => {
    expect(await attempt()).toBe('chosen');
    // as the supervisor goes back
    await writeFile(join(home, 'failed'), '1.1.0\n');
    await writeFile(join(home, 'current'), '1.0.0\n');
    await rm(join(home, 'trial'));
    const before = server.asked.length;
    expect(await attempt()).toMatchObject({ reason: 'VersionFailed', message: expect.stringMatching(/journalctl/) });
    expect(server.asked).toHaveLength(before);
    expect(await ends(updaterOf(), again)).toBe('chosen');
    await expectUpdated();
    expect(await read('failed')).toBe('');
  });

  it('and was replaced by another request meanwhile gives way to that', async () => {
    const held = Promise.withResolvers<string>();
    const begun = Promise.withResolvers<void>();
    let times = 0;
    const updater = updaterOf({
      askVersion: () => {
        begun.resolve();
        return times++ === 0 ? held.promise : Promise.resolve('1.1.0');
      },
    });
    updater.ask(update);
    await begun.promise;
    updater.ask(again);
    held.resolve('9.9.9');
    await until('it is updated', async () => chosen === 1);
    expect(updater.failure).toBeUndefined();
    expect(await read('asked')).toBe(`1.1.0 ${again.requestedAt}`);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])(
    'as the disk is full at write %i leaves the agent that runs',
    async (passing) => {
      await failNextOf('sync', passing);
      expect(await attempt()).toMatchObject({ reason: 'DiskFull' });
      expect([await read('current'), await read('trial')]).toEqual(['1.0.0', '']);
      // and there is room again
      expect(await ends(updaterOf(), again)).toBe('chosen');
      await expectUpdated();
    },
  );

  it('after its last write took effect is on trial all the same', async () => {
    await failNextOf('sync', 10); // of the folder, after `current` was renamed
    expect(await attempt()).toBe('chosen');
    await expectUpdated();
  });
});

it.each([
  ['1.0.1', '1.0.0', true],
  ['1.0.0', '1.0.0', false],
  ['1.0.0', '1.0.1', false],
  ['1.10.0', '1.9.9', true],
  ['10.0.0', '9.99999.99999', true],
  ['1.0.0', 'unknown', false],
  ['1.0.0-rc.1', '0.1.0', false],
])('%s is later than %s: %s', (version, than, expected) => {
  expect(isLater(version, than)).toBe(expected);
});
