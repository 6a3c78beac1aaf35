import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { installScript } from '../../api/pages/install-script.ts';
import { installCommand } from '../../api/routes/servers/install-command.ts';
import { freePort } from '../harness/program.ts';
import { smallRelease } from '../harness/small-release.ts';
import type { SmallRelease } from '../harness/small-release.ts';

/**
 * What the script refuses before it changes anything. The programs that it may use are links in a folder of the test;
 * those that would change something leave a mark instead. `test/e2e/install.test.ts` lets it install.
 */
/** Not busybox: its shell has programs of its own, which it takes instead of those of the folder. */
const shells = ['dash', 'bash'] as const;
const harmless = ['cat', 'cut', 'grep', 'sed', 'sha256sum', 'readlink', 'tail', 'uname', 'id', 'curl'];
const changing = ['mkdir', 'chmod', 'mv', 'rm', 'setsid', 'apt-get', 'sync', 'tee', 'kill'];
const token = `sj_${'0'.repeat(32)}_${'a'.repeat(43)}`;
const given = ['--server', 'https://setpoint.test/default'];

let release: SmallRelease;
let script: string;
let folder: string;

beforeAll(async () => {
  release = await smallRelease('1.2.3', { 'linux-x64': 'one', 'linux-arm64': 'two' });
  script = await installScript(release.manifest, 'https://setpoint.test');
});
afterAll(() => release[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-install-'));
  for (const name of harmless) await symlink(await whereIs(name), join(folder, name));
  for (const name of changing) await program(name, `echo '${name}' >>'${folder}/marks'`, 'exit 1');
  await program('systemctl', `[ "$1" != is-active ] || exit 3`, `echo systemctl >>'${folder}/marks'`, 'exit 1');
  await program('uname', `case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac`);
  await program('id', 'echo 0');
});
afterEach(async () => {
  expect(await readFile(join(folder, 'marks'), 'utf8').catch(() => '')).toBe('');
  await rm(folder, { recursive: true, force: true });
});

async function whereIs(name: string): Promise<string> {
  const child = spawn('sh', ['-c', `command -v ${name}`], { stdio: ['ignore', 'pipe', 'ignore'] });
  return (await text(child.stdout)).trim();
}

async function program(name: string, ...lines: string[]): Promise<void> {
  const path = join(folder, name);
  await rm(path, { force: true });
  await writeFile(path, ['#!/bin/sh', ...lines, ''].join('\n'));
  await chmod(path, 0o755);
}

interface Run {
  shell?: (typeof shells)[number];
  args?: readonly string[];
  env?: Record<string, string>;
  input?: string;
}

/** Runs the script as `curl … | sh` does. */
async function install(it: Run = {}): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { shell = 'dash', args = given, env = { SETPOINT_JOIN_TOKEN: token }, input = script } = it;
  // each shell by its path: its programs are those of the folder alone
  const child = spawn(await whereIs(shell), ['-s', '--', ...args], {
    env: { ...env, PATH: folder },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined); // the script may end before it was read whole
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}

describe('the script that installs the agent refuses', () => {
  it.each(shells)('a machine of an unknown architecture: %s', async (shell) => {
    await program('uname', 'case $1 in -s) echo Linux ;; *) echo riscv64 ;; esac');
    const { code, stderr } = await install({ shell });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'setpoint: There is no agent for the architecture riscv64: only for x86_64 and aarch64\n',
    });
  });

  it('an architecture that the release was not built for', async () => {
    await release.publish('1.2.3', { 'linux-x64': 'one' });
    await program('uname', 'case $1 in -s) echo Linux ;; *) echo aarch64 ;; esac');
    const input = await installScript(release.manifest, 'https://setpoint.test');
    expect((await install({ input })).stderr).toContain('has no agent for linux-arm64: its operator must build one');
  });

  it('another system', async () => {
    await program('uname', 'echo Darwin');
    expect((await install()).stderr).toContain('The agent runs on Linux: this is Darwin');
  });

  it.each(shells)('a user who is not root: %s', async (shell) => {
    await program('id', 'echo 1000');
    const { code, stderr } = await install({ shell });
    expect(code).toBe(1);
    expect(stderr).toContain('This needs root');
  });

  it('a machine without curl and wget', async () => {
    await rm(join(folder, 'curl'));
    expect((await install()).stderr).toContain('curl or wget is missing: install one of them');
  });

  it('a machine without sha256sum', async () => {
    await rm(join(folder, 'sha256sum'));
    expect((await install()).stderr).toContain('The program sha256sum is missing');
  });

  it.each(shells)('a machine that has not joined, without a token: %s', async (shell) => {
    const { code, stderr } = await install({ shell, env: {} });
    expect(code).toBe(1);
    expect(stderr).toContain('needs a join token');
  });

  it.each([
    [['--server', 'https://setpoint.test/default', '--token', 'sp_1'], 'must begin with sj_'],
    [['--server', 'https://setpoint.test/default', '--token', 'sj_1 2'], 'not copied whole'],
    [['--server', 'https://setpoint.test/default', '--token'], '--token lacks its value'],
    [['--server', 'setpoint.test'], 'must begin with https:// or http://'],
    [['--server', "https://setpoint.test/'$(reboot)'"], '--server must be a URL'],
    [['--server', 'https://setpoint.test/a\nSETPOINT_RUNTIME=mock'], '--server must be a URL'],
    [['--server', 'http://setpoint.test/default'], 'add --allow-plain-http'],
    [['--server', 'https://one.test/default,http://two.test/default'], 'add --allow-plain-http'],
    [['--server', 'http://localhost:7070/default'], 'needs a join token'],
    [['--server', 'http://setpoint.test/default', '--allow-plain-http'], 'needs a join token'],
    [['--sever', 'x'], 'Unknown argument: --sever'],
  ])('the arguments %j', async (args, message) => {
    const { code, stderr } = await install({ args, env: { SETPOINT_JOIN_TOKEN: '' } });
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });
});

it.each(shells)('a machine that does not reach an address of the control plane alone is told so: %s', async (shell) => {
  const publicUrl = `http://127.0.0.1:${await freePort()}`;
  const line = installCommand({ publicUrl, tenant: 'default', token, isReleased: true, allowPlainHttp: false });
  await symlink(await whereIs(shell), join(folder, 'sh'));
  const { code, stderr } = await install({ shell, args: [], env: {}, input: line });
  expect(code).toBe(1);
  expect(stderr).toContain('setpoint: Nothing was installed.');
  expect(stderr).toContain('set SETPOINT_PUBLIC_URL there');
});

it.each(shells)('an agent that can remove itself does so without a release for its machine: %s', async (shell) => {
  const home = join(folder, 'home');
  await mkdir(join(home, 'versions/1.0.0'), { recursive: true });
  await writeFile(join(home, 'current'), '1.0.0\n');
  const agent = '#!/bin/sh\nif [ "$1" = --help ]; then echo "  uninstall"; else echo "asked to $*"; fi\n';
  await writeFile(join(home, 'versions/1.0.0/setpoint-agent'), agent, { mode: 0o755 });
  await release.publish('1.2.3', { 'linux-x64': 'one' });
  await program('uname', 'case $1 in -s) echo Linux ;; *) echo aarch64 ;; esac');
  const text = await installScript(release.manifest, 'https://setpoint.test');
  const input = text.replaceAll('/opt/setpoint-agent', home);
  const { code, stdout, stderr } = await install({ shell, args: ['--uninstall'], env: {}, input });
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'asked to uninstall --yes\n', stderr: '' });
});

describe('a machine that has the agent of a server', () => {
  const own = '00000000-0000-0000-0000-000000000000';
  const other = '11111111-2222-3333-4444-555555555555';

  /** Runs the script, with the token of the first server, on a machine that has the agent of that server. */
  async function installOver(server: string, shell: (typeof shells)[number]) {
    const data = join(folder, 'data');
    await mkdir(data, { recursive: true });
    await writeFile(join(data, 'identity.json'), JSON.stringify({ v: 1, server_id: server, private_key: 'x' }));
    return install({ shell, input: script.replaceAll('/var/lib/setpoint/agent', data) });
  }

  it.each(shells)('is left as it is by the command of another server: %s', async (shell) => {
    const { code, stdout, stderr } = await installOver(other, shell);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe(
      `setpoint: This machine has the agent of server ${other}, and the join token is of server ${own}. Nothing was changed. ` +
        'To keep the agent, run the command that setpoint join prints for its own server. To give the machine to the other server, ' +
        'remove the agent with its containers first: curl -fsSL https://setpoint.test/install.sh | sh -s -- --uninstall\n',
    );
  });

  it.each(shells)('that removes itself is waited for: %s', async (shell) => {
    const data = join(folder, 'data');
    await mkdir(data);
    await writeFile(join(data, 'uninstall'), '');
    await program('sleep', `${await whereIs('rm')} -f ${data}/identity.json ${data}/uninstall`);
    const { stdout, stderr } = await installOver(other, shell);
    expect(stdout).toContain('removes itself: waiting for that');
    expect(stderr).not.toContain('has the agent of server');
    expect(await readFile(join(folder, 'marks'), 'utf8')).toMatch(/^mkdir\n/);
    await rm(join(folder, 'marks'));
  });

  it.each(shells)('takes another join token of its own server: %s', async (shell) => {
    const { stderr } = await installOver(own, shell);
    expect(stderr).not.toContain('This machine has the agent');
    expect(await readFile(join(folder, 'marks'), 'utf8')).toMatch(/^mkdir\n/);
    await rm(join(folder, 'marks'));
  });
});

describe('the script that installs the agent', () => {
  it('says how it is used', async () => {
    const { code, stdout } = await install({ args: ['--help'] });
    expect(code).toBe(0);
    expect(stdout).toContain(
      'curl -fsSL https://setpoint.test/install.sh | SETPOINT_JOIN_TOKEN=TOKEN sh -s -- --server',
    );
  });

  it.each(shells)('does nothing if it was cut off on its way: %s', async (shell) => {
    const step = Math.ceil(script.length / 40);
    for (let length = step; length < script.length - 1; length += step) {
      const { stdout } = await install({ shell, input: script.slice(0, length) });
      expect(stdout).toBe('');
    }
    const last = script.lastIndexOf('main');
    expect((await install({ shell, input: script.slice(0, last) })).code).toBe(0);
  });

  it('quotes what it is made of', async () => {
    const input = await installScript(release.manifest, "https://setpoint.test/'$(echo x)'");
    const { stdout } = await install({ args: ['--help'], input });
    expect(stdout).toContain("curl -fsSL https://setpoint.test/'$(echo x)'/install.sh");
  });
});
