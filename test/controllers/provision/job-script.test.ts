import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { jobStateOf, looksAt, packagesScript, starts } from '../../../controllers/provision/job.ts';
import type { JobState } from '../../../controllers/provision/job.ts';
import { uuidv5 } from '../../../store/uuid.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

const execute = promisify(execFile);
const token = `sj_${'a'.repeat(76)}`;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-job-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const idOf = (name: string): string => uuidv5('00000000-0000-4000-8000-000000000000', name);
const file = (name: string): string => join(folder, 'provision', name);

/** Runs what would be sent to a machine, with its folder in that of the test, and hardly any patience. */
async function run(script: string, patience = 3): Promise<JobState> {
  const sent = script
    .replaceAll('/var/lib/setpoint/provision', join(folder, 'provision'))
    .replace(/patience=\d+/, `patience=${patience}`);
  const shell = spawn('sh', ['-s'], { stdio: ['pipe', 'pipe', 'pipe'], env: { PATH: process.env['PATH'] } });
  shell.stdin.end(sent);
  const closed = once(shell, 'close');
  const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  await closed;
  return jobStateOf(out, err, (text) => text);
}
const start = (name: string, script: string, patience?: number): Promise<JobState> =>
  run(starts({ id: idOf(name), name: 'agent' }, { script, server: 'https://setpoint.test/default', token }), patience);
const look = (name: string): Promise<JobState> => run(looksAt({ id: idOf(name), name: 'agent' }), 0);
const hasEnded = (name: string): Promise<true> =>
  until('the job has ended', async () => (await look(name)).state === 'ended');

describe('a job', () => {
  it('runs once, with the address as an argument and the token in its environment', async () => {
    const script = `echo "$* $SETPOINT_JOIN_TOKEN" >>"${folder}/ran"; echo 'setpoint: It is done'; echo more\n`;
    expect(await look('one')).toEqual({ state: 'none' });
    const done = { state: 'ended', code: 0, says: 'It is done' };
    expect(await start('one', script)).toEqual(done);
    expect(await start('one', script)).toEqual(done);
    expect(await look('one')).toEqual(done);
    expect(await readFile(join(folder, 'ran'), 'utf8')).toBe(`--server https://setpoint.test/default ${token}\n`);
  });

  it('passes on that plain http is allowed', { tags: [longTag] }, async () => {
    const payload = { script: `echo "$*" >"${folder}/ran"\n`, server: 'http://setpoint.test/default', token };
    await run(starts({ id: idOf('plain'), name: 'agent' }, { ...payload, plainHttp: true }));
    expect(await readFile(join(folder, 'ran'), 'utf8')).toBe(
      '--server http://setpoint.test/default --allow-plain-http\n',
    );
  });

  it('leaves its token in no file', async () => {
    await start('one', 'exit 3\n');
    for (const name of await readdir(join(folder, 'provision')))
      expect(await readFile(file(name), 'utf8'), name).not.toContain('sj_');
  });

  it('tells its last message while it runs, and no word of its programs', async () => {
    const gate = join(folder, 'gate');
    const script = `echo 'setpoint: Waits for apt'; echo more; until [ -e "${gate}" ]; do sleep 0.1; done\n`;
    await start('one', script, 0);
    const says = await until('it says something', async () => {
      const state = await look('one');
      return state.state === 'running' ? state.says : undefined;
    });
    expect(says).toBe('Waits for apt');
    await writeFile(gate, '');
    await hasEnded('one');
  });

  it('that fails says how, by its last word', async () => {
    expect(await start('one', 'echo begins; echo "cannot do it" >&2; exit 7\n')).toEqual({
      state: 'ended',
      code: 7,
      says: 'cannot do it',
    });
  });

  it('goes on when the connection that started it ends, and is found by the next one', async () => {
    const gate = join(folder, 'gate');
    const script = `until [ -e "${gate}" ]; do sleep 0.1; done; echo ok\n`;
    expect(await start('one', script, 0)).toEqual({ state: 'running' });
    expect(await look('one')).toEqual({ state: 'running' });
    expect(await start('one', script, 0)).toEqual({ state: 'running' });
    // another one waits for it, and does not begin
    expect(await start('two', 'echo two\n', 0)).toEqual({ state: 'running' });
    await writeFile(gate, '');
    await hasEnded('one');
    expect(await look('two')).toEqual({ state: 'none' });
    expect(await start('two', 'echo two\n')).toMatchObject({ says: 'two' });
  });

  it('is not held by what it starts and leaves behind', { tags: [longTag] }, async () => {
    const left = join(folder, 'left');
    await start(
      'one',
      `setsid sh -c 'echo $$ >"${left}"; exec sleep 600' >/dev/null 2>&1 &\nwhile [ ! -s "${left}" ]; do sleep 0.1; done\n`,
    );
    try {
      expect(await start('two', 'echo two\n')).toMatchObject({ state: 'ended', says: 'two' });
    } finally {
      process.kill(Number(await readFile(left, 'utf8')));
    }
  });

  it('that was killed begins anew', async () => {
    const pids = join(folder, 'pids');
    expect(await start('one', `echo $PPID $$ >"${pids}"; sleep 600\n`, 0)).toEqual({ state: 'running' });
    const [group = 0, job = 0] = (await until('it runs', () => readFile(pids, 'utf8'))).trim().split(' ').map(Number);
    // as a machine that goes down: the job, and what would note its end, which leads the session
    const session = Number((await readFile(`/proc/${job}/stat`, 'utf8')).split(' ')[5]);
    process.kill(-session, 'SIGKILL');
    process.kill(-group, 'SIGKILL');
    await until('the lock is free', async () => (await look('one')).state === 'none');
    expect(await start('one', 'echo again\n')).toMatchObject({ state: 'ended', says: 'again' });
  });

  it('that is sent twice at once runs once', { tags: [longTag] }, async () => {
    const script = `echo ran >>"${folder}/ran"; sleep 1\n`;
    await Promise.all([start('one', script, 0), start('one', script, 0), start('one', script, 0)]);
    await hasEnded('one');
    expect(await readFile(join(folder, 'ran'), 'utf8')).toBe('ran\n');
  });

  it('does not begin if the script is cut off on its way', async () => {
    const whole = starts(
      { id: idOf('one'), name: 'agent' },
      { script: `touch "${folder}/ran"\n`, server: 'https://setpoint.test/default', token },
    );
    for (const share of [0.2, 0.5, 0.8, 0.99]) await run(whole.slice(0, Math.floor(whole.length * share) - 2));
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('the installation of packages', () => {
  /** Programs of this machine that the script may see, beside those that the test writes. */
  const own = ['sh', 'cat', 'grep', 'tail', 'mktemp', 'rm', 'timeout', 'sleep', 'touch', 'chmod', 'mkdir', 'sed'];

  /** Runs the script where these programs are all that there is. */
  async function install(programs: Readonly<Record<string, string>>, { tries = 600 } = {}) {
    const bin = join(folder, 'bin');
    await mkdir(bin);
    for (const name of own)
      await execute('ln', ['-s', (await execute('which', [name])).stdout.trim(), join(bin, name)]);
    for (const [name, lines] of Object.entries(programs))
      await writeFile(join(bin, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
    const script = packagesScript
      .replaceAll('/run/systemd/system', join(folder, 'none'))
      .replace('lock_pause=2', 'lock_pause=0')
      .replace('lock_tries=600', `lock_tries=${tries}`)
      .replace('/var/lib/apt/lists/lock', join(folder, 'lists-lock'))
      .replaceAll('/etc/init.d/docker', join(bin, 'init'));
    const shell = spawn('/bin/sh', ['-s'], { stdio: ['pipe', 'pipe', 'pipe'], env: { PATH: bin } });
    shell.stdin.end(script);
    const closed = once(shell, 'close');
    const [out] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
    const [code] = await closed;
    const calls = await readFile(join(folder, 'calls'), 'utf8').catch(() => '');
    return { code: code as number | null, out, calls: calls.trim().split('\n') };
  }
  const there = 'exit 0';
  const manager = (lines: string): string => `echo "$*" >>"${folder}/calls"\n${lines}`;
  const makes = (name: string, lines: string): string =>
    `printf '#!/bin/sh\\n${lines}\\n' >"${folder}/bin/${name}"; chmod 755 "${folder}/bin/${name}"`;

  it('asks for what is missing, in one call, and starts the engine', async () => {
    const { code, calls, out } = await install({
      iptables: there,
      curl: there,
      'apt-get': manager(`case "$*" in install*) ${makes('docker', `[ -e "${folder}/up" ]`)} ;; esac`),
      dpkg: there,
      init: `touch "${folder}/up"`,
    });
    expect([code, out.trim().split('\n').at(-1)]).toEqual([0, 'setpoint: All that a server needs is installed']);
    expect(calls).toHaveLength(2);
    expect(calls[1]).toMatch(/^install -y .* docker\.io git$/);
  });

  describe('while another program has the package manager', () => {
    const locks = {
      'of the list of packages': 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)',
      'of dpkg': 'dpkg: error: dpkg frontend lock was locked by another process with pid 1',
      'of the status of dpkg': 'dpkg: error: dpkg status database is locked by another process',
      'of packages, by an older apt': 'E: Could not get lock /var/cache/apt/archives/lock - open: unavailable',
    };
    /** Fails with these words for the first three times. */
    const busy = (words: string, lines: string): string =>
      manager(`[ -e "${folder}/3" ] || {
        for n in 1 2 3; do [ -e "${folder}/$n" ] || { touch "${folder}/$n"; echo "${words}" >&2; exit 100; }; done
      }
      ${lines}`);

    it.each(Object.entries(locks))('waits for the lock %s, says for whom, and goes on', async (_, words) => {
      const { code, out } = await install({
        git: there,
        iptables: there,
        curl: there,
        'apt-get': busy(words, `case "$*" in install*) ${makes('docker', 'exit 0')} ;; esac`),
        dpkg: busy(words, 'exit 0'),
      });
      const said = out.split('\n').filter((line) => line.startsWith('setpoint: '));
      const comm = (await readFile('/proc/1/comm', 'utf8')).trim();
      const who = words.includes('1') ? `${comm} (process 1)` : 'another program';
      expect([code, said]).toEqual([
        0,
        [
          `setpoint: Waits for ${who}, which has the package manager`,
          'setpoint: The package manager is free again: the installation goes on',
          'setpoint: All that a server needs is installed',
        ],
      ]);
    });

    it('finds who has the lock by its open file', async () => {
      const lock = join(folder, 'lists-lock');
      await using held = await open(lock, 'w');
      const { out } = await install({
        git: there,
        'apt-get': busy('E: Could not get lock /var/lib/apt/lists/lock', 'exit 1'),
        dpkg: there,
      });
      expect(out).toContain(`(process ${process.pid}), which has the package manager`);
      expect(held.fd).toBeGreaterThan(0);
    });

    it('gives up after the longest time, with what the package manager said', async () => {
      const words = locks['of the list of packages'];
      const { code, calls, out } = await install(
        { 'apt-get': manager(`echo "${words}" >&2; exit 100`), dpkg: there },
        { tries: 3 },
      );
      expect([code, calls.length]).toEqual([1, 4]);
      expect(out.trim().split('\n').at(-1)).toBe(`setpoint: apt-get update failed: ${words}`);
    });
  });

  it('changes nothing where nothing is missing', async () => {
    const { code, calls } = await install({
      docker: there,
      git: there,
      iptables: there,
      wget: there,
      'apt-get': manager('exit 0'),
    });
    expect([code, calls]).toEqual([0, ['']]);
  });

  it('says why the package manager could not', async () => {
    const { code, out } = await install({
      'apt-get': manager('echo "E: Unable to locate package docker.io" >&2; [ "$1" = update ]'),
      dpkg: there,
    });
    expect(code).toBe(1);
    expect(out).toMatch(
      /setpoint: apt-get could not install .*docker\.io.*: E: Unable to locate package docker\.io\n$/,
    );
  });

  it('names what to install where there is no known package manager', async () => {
    const { code, out } = await install({ docker: there, git: there, iptables: there });
    expect([code, out]).toEqual([1, 'setpoint: There is no apt-get to install: curl\n']);
  });
});
