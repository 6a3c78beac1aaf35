import { execFile } from 'node:child_process';
import { access, copyFile, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startedPrograms, startsIn } from './started-programs.ts';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const product = [
  'agent',
  'agent-protocol',
  'api',
  'cli',
  'controllers',
  'manifests',
  'network',
  'rules',
  'store',
  'time',
];
const tests = ['test', 'bench'];
/** Its own needs are installed only where it runs, and its run shows whether they are all there. */
const apart = 'test/fresh/';

/** Programs of the machine that a place starts without naming them in its call. The others start Node or Setpoint. */
const startedAt: Readonly<Record<string, readonly string[]>> = {
  'agent/ports/firewall.ts: program.restore': ['iptables-restore', 'ip6tables-restore'],
  'agent/ports/firewall.ts: program.save': ['iptables-save', 'ip6tables-save'],
  'agent/engine/volume-copier.ts: program': ['cp', 'sync'],
  'agent/machine/process.ts: program': [],
  "agent/uninstall/removal.ts: 'systemctl'": [],
  "cli/agent-uninstall.ts: 'systemd-run'": [],
  'cli/agent-uninstall.ts: process.execPath': [],
  "cli/release/node-binary.ts: 'npm'": [], // as where the project itself was installed
  'cli/release/executable.ts: process.execPath': [],
  'test/cli/release.test.ts: process.execPath': [],
  // only where systemd runs the machine
  "agent/machine/server-shells.ts: 'systemctl'": [],
  "agent/machine/server-shells.ts: 'systemd-run'": [],
  'agent/tasks/git-program.ts: shell': ['sh', 'git', 'ssh'],
  'test/agent/machine/bounded.test.ts: it.shell': ['sh'],
  'cli/agent.ts: executable': [], // of a release
  'bench/build-log.bench.ts: command': ['docker'],
  'bench/server-process.ts: program': [],
  'cli/dev.ts: program': [],
  'test/agent/engine/volume-archiver.test.ts: program': ['tar', 'mkfifo'],
  'test/agent/engine/volume-copier.test.ts: program': ['mount', 'umount', 'tar'],
  "test/agent/machine/machine-identities.test.ts: argv[0] ?? ''": ['unshare'],
  'test/agent/ports/iptables-publisher.test.ts: process.execPath': [],
  "test/agent/machine/process.test.ts: 'setpoint-absent'": [],
  'test/agent/update/crash.test.ts: process.execPath': [],
  'test/e2e/tenant-deletion.test.ts: command': [],
  // of a later Debian, whose packages this machine does not have: `later_test` of the script
  "test/agent/dockerfiles/site-server.test.ts: 'caddy'": [],
  "test/agent/ingress/refusals.test.ts: 'caddy'": [],
  "test/harness/acme-server.ts: 'pebble'": [],
  "test/harness/acme-server.ts: 'pebble-challtestsrv'": [],
  "test/harness/host-proxy.ts: 'caddy'": [],
  "test/harness/http3-client.ts: 'caddy'": [],
  'test/harness/command-line.ts: program': [],
  // The script itself installs with apt-get. npm is as where the project itself was installed.
  "test/harness/package-sources.ts: 'apt-get'": [],
  "test/harness/package-sources.ts: 'npm'": [],
  'test/harness/program.ts: this.command': [],
  "test/harness/release.ts: 'npm'": [], // as where the project itself was installed
  "test/harness/small-engine.ts: 'unshare'": ['unshare', 'dockerd'],
  'test/harness/smtp-server.ts: program': ['aiosmtpd'],
  "test/layers.test.ts: join(root, 'node_modules/.bin/oxlint')": [],
  'test/manifests/example-repository.test.ts: program': [],
  'test/manifests/hello.test.ts: process.execPath': [],
  'test/manifests/machine.test.ts: script': [],
  'test/manifests/runtimes.test.ts: process.execPath': [],
  'test/run.ts: program': [],
  'test/long/benchmarks.test.ts: process.execPath': [],
  'test/clients/clients.test.ts: process.execPath': [],
  'test/clients/console-types.ts: process.execPath': [],
  'test/cli/stop-signal.test.ts: process.execPath': [],
  'test/cli/release.test.ts: built.executable': [],
  'test/manifests/install-script.test.ts: await whereIs(shell)': [],
  'test/manifests/supervise.test.ts: shell': ['busybox'],
  'test/store/sqlite/writer-process.ts: process.execPath': [],
};

test.each([
  ['run', product],
  ['test', [...product, ...tests]],
] as const)('`machine.sh %s` installs every program that is started', async (target, folders) => {
  const script = join(root, 'manifests/install/machine.sh');
  const installed = (await execute(script, ['list', target])).stdout.trim().split('\n');
  const missing: string[] = [];
  const owners = new Map<string, Owner | undefined>();
  for (const { program, place } of await startedPrograms(root, folders)) {
    if (place.startsWith(apart)) continue;
    const programs = startedAt[place] ?? (program === undefined ? undefined : [program]);
    if (programs === undefined) missing.push(`${place}: add what it starts to the table of this test`);
    for (const name of programs ?? []) {
      if (!owners.has(name)) owners.set(name, await packageOf(name));
      const owner = owners.get(name);
      if (owner === undefined) missing.push(`${place}: no package of this machine has ${name}`);
      else if (!owner.isEssential && !installed.includes(owner.name))
        missing.push(`${place}: ${name} is in ${owner.name}`);
    }
  }
  expect(missing).toEqual([]);
});

describe('on a machine with systemd, `machine.sh test`', () => {
  const isActive = (unit: string) => `case $* in *is-*${unit}) exit 0 ;; *is-*) exit 3 ;; esac`;

  test('installs nothing where only the path lacks the programs of root, and stops nothing', async () => {
    const { run, asked } = await prepared((script) => script);
    await run();
    expect(await asked()).toEqual([]);
  });

  test('stops the service that a package brought, and none that the machine had', async () => {
    // as if neither program was there
    const lacks = (script: string) =>
      script.replace('\netcd etcd-server', '\nno-etcd etcd-server').replace('\nsshd ', '\nno-sshd ');
    const { run, asked } = await prepared(lacks, isActive('etcd.service'));
    await run();
    expect(await asked()).toEqual([
      expect.stringMatching(/^apt-get install .*etcd-server.*openssh-server/),
      'systemctl disable --now --quiet ssh.service',
    ]);
  });

  /** The script in a folder of its own, with an engine that answers; `systemctl` ends with 0 after those lines. */
  async function prepared(change: (script: string) => string, ...systemctl: string[]) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-machine-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const programs = join(folder, 'bin');
    await mkdir(programs);
    const program = (name: string, ...lines: string[]) =>
      writeFile(join(programs, name), ['#!/bin/sh', ...lines, ''].join('\n'), { mode: 0o755 });
    const log = join(folder, 'asked');
    await program('id', 'echo 0');
    await program('curl');
    await program('apt-get', `echo "apt-get $*" >>'${log}'`);
    await program('systemctl', ...systemctl, `echo "systemctl $*" >>'${log}'`);
    const own = await readFile(join(root, 'manifests/install/machine.sh'), 'utf8');
    const script = change(own.replaceAll('/run/systemd/system', folder));
    await writeFile(join(folder, 'machine.sh'), script, { mode: 0o755 });
    await copyFile(join(root, 'manifests/install/patiently.sh'), join(folder, 'patiently.sh'));
    return {
      run: () =>
        execute('sh', [join(folder, 'machine.sh'), 'test'], {
          env: { PATH: `${programs}:/usr/local/bin:/usr/bin:/bin` },
        }),
      asked: async () => (await readFile(log, 'utf8').catch(() => '')).split('\n').filter((line) => line !== ''),
    };
  }
});

test('a call that starts a program is found by what it calls', () => {
  const text = `
    import { execFile as file, spawn } from 'node:child_process';
    import { run, start } from '../process.ts';
    const execute = promisify(file);
    const tool = '/usr/sbin/tool';
    spawn('one', ['two']); execute(\`three\`); run(tool, {}); start('seven', {}); other('four'); promisify(file)('five', []);
    launch({ executablePath: '/usr/bin/six' });`;
  expect(startsIn(text, 'a.ts')).toEqual([
    { program: 'one', place: "a.ts: 'one'" },
    { program: undefined, place: 'a.ts: `three`' },
    { program: 'tool', place: 'a.ts: tool' },
    { program: 'seven', place: "a.ts: 'seven'" },
    { program: 'five', place: "a.ts: 'five'" },
    { program: 'six', place: "a.ts: '/usr/bin/six'" },
  ]);
});

interface Owner {
  name: string;
  /** Every installation of the distribution has it, however small. */
  isEssential: boolean;
}

/** The Debian package that has a program of this machine. */
async function packageOf(program: string): Promise<Owner | undefined> {
  for (const folder of ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']) {
    const path = join(folder, program);
    if (!(await exists(path))) continue;
    // Packages name their files as they were before /bin became a link to /usr/bin.
    const real = await realpath(path);
    for (const name of [real, real.replace(/^\/usr/, '')]) {
      const found = await execute('dpkg-query', ['--search', name]).catch(() => undefined);
      const owner = found?.stdout.split(':')[0];
      if (owner === undefined) continue;
      const { stdout } = await execute('dpkg-query', ['--show', '--showformat', '${Essential}', owner]);
      return { name: owner, isEssential: stdout === 'yes' };
    }
  }
  return undefined;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
