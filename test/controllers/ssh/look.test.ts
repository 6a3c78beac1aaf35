import { describe, expect, test } from 'vitest';
import { readFile } from 'node:fs/promises';
import { machineNeeds, requirements, requirementsOf } from '../../../controllers/ssh/requirements.ts';
import type { Expectation, Requirement } from '../../../controllers/ssh/requirements.ts';
import { Facts, parseFacts } from '../../../controllers/ssh/facts.ts';

const now = Date.parse('2030-01-01T00:00:00Z');
const good: Facts = {
  os: 'debian',
  os_version: '12',
  os_name: 'Debian GNU/Linux 12 (bookworm)',
  kernel: 'Linux',
  machine: 'x86_64',
  root: 'yes',
  init: 'systemd',
  packages: 'apt-get',
  clock: now / 1000,
  disk_free_kib: 50 * 1024 ** 2,
  inodes_free: 1_000_000,
  memory_kib: 4 * 1024 ** 2,
  git: '2.39.5',
  iptables: 'yes',
  fetch: 'yes',
  docker: '26.1.5+dfsg1',
  docker_client: '26.1.5+dfsg1',
  docker_socket: 'yes',
  port_80: 'free',
  port_443: 'free',
};
const { root: _, ...user } = good;
const { docker: __, ...silentEngine } = good;
const { docker_client: ___, docker_socket: ____, ...noEngine } = silentEngine;
const { git: _____, ...noGit } = good;

function check(name: Requirement, facts: Facts, expected: Partial<Expectation> = {}) {
  return requirementsOf(facts, { login: 'key', now, otherServer: undefined, ...expected }).find(
    (it) => it.name === name,
  );
}

test('a good machine passes all of them, in their order', () => {
  const checks = requirementsOf(good, { login: 'key', now, otherServer: undefined });
  expect(checks.map(({ name }) => name)).toEqual([...requirements]);
  expect(checks.map(({ status }) => status)).toEqual(requirements.map(() => 'pass'));
  expect(checks.every(({ remediation }) => remediation === null)).toBe(true);
});

describe.each<[Requirement, 'warn' | 'fail' | 'pass', string, Facts, Partial<Expectation>?]>([
  ['privileges', 'pass', 'sudo asks for no password', { ...user, sudo: 'free' }],
  ['privileges', 'pass', 'which is known', { ...user, sudo: 'asks' }, { login: 'password' }],
  ['privileges', 'fail', 'asks for a password', { ...user, sudo: 'asks' }],
  ['privileges', 'fail', 'does not take the password', { ...user, sudo: 'refuses' }],
  ['privileges', 'fail', 'no sudo', { ...user, sudo: 'missing' }],
  ['operating_system', 'warn', 'not tried', { ...good, os_version: '11', os_name: 'Debian GNU/Linux 11' }],
  [
    'operating_system',
    'fail',
    'provisioning installs nothing',
    { ...noGit, os_version: '11', os_name: 'Debian GNU/Linux 11' },
  ],
  ['operating_system', 'fail', 'too old', { ...good, os_version: '9', os_name: 'Debian GNU/Linux 9' }],
  ['operating_system', 'pass', 'Ubuntu', { ...good, os: 'ubuntu', os_version: '22.04', os_name: 'Ubuntu 22.04' }],
  ['operating_system', 'warn', 'not tried', { ...good, os: 'ubuntu', os_version: '20.04', os_name: 'Ubuntu 20.04' }],
  ['operating_system', 'fail', 'too old', { ...good, os: 'ubuntu', os_version: '18.04', os_name: 'Ubuntu 18.04' }],
  ['operating_system', 'warn', 'not tried', { ...good, os: 'fedora', os_version: '43', os_name: 'Fedora 43' }],
  ['operating_system', 'warn', 'not tried', { ...good, os: 'arch', os_version: undefined, os_name: 'Arch Linux' }],
  ['operating_system', 'warn', 'not tried', { ...silentEngine, os: 'fedora', os_version: '43', os_name: 'Fedora 43' }],
  ['operating_system', 'fail', 'provisioning installs nothing', { ...noEngine, os: 'fedora', os_name: 'Fedora 43' }],
  ['operating_system', 'fail', 'C library is musl', { ...good, os: 'alpine', os_name: 'Alpine Linux', libc: 'musl' }],
  ['operating_system', 'fail', 'FreeBSD', { ...good, kernel: 'FreeBSD', os_name: 'FreeBSD' }],
  ['architecture', 'pass', 'arm64', { ...good, machine: 'aarch64' }],
  ['architecture', 'fail', 'riscv64', { ...good, machine: 'riscv64' }],
  ['engine', 'warn', 'not installed', noEngine],
  ['engine', 'fail', 'not installed', { ...noEngine, packages: 'dnf' }],
  ['engine', 'fail', 'too old', { ...good, docker: '19.03.15' }],
  ['engine', 'pass', '20.10', { ...good, docker: '20.10.24+dfsg1' }],
  ['engine', 'fail', 'does not answer', silentEngine],
  ['git', 'warn', 'not installed', noGit],
  ['git', 'fail', 'not installed', { ...noGit, packages: 'dnf' }],
  ['service_manager', 'warn', 'no systemd', { ...good, init: 'other' }],
  ['disk', 'warn', 'free', { ...good, disk_free_kib: machineNeeds.diskWarnKib - 1 }],
  ['disk', 'fail', 'free', { ...good, disk_free_kib: machineNeeds.diskFailKib - 1 }],
  ['disk', 'fail', 'inodes', { ...good, inodes_free: 5 }],
  ['memory', 'warn', 'memory', { ...good, memory_kib: machineNeeds.memoryWarnKib - 1 }],
  ['memory', 'fail', 'memory', { ...good, memory_kib: machineNeeds.memoryFailKib - 1 }],
  ['ports', 'warn', 'port 443', { ...good, port_443: 'taken' }],
  ['clock', 'warn', '60 s behind', { ...good, clock: now / 1000 - 60 }],
  ['agent', 'fail', 'of another server: two (id)', good, { otherServer: 'two (id)' }],
  ['agent', 'fail', 'removes itself from it: two (id)', { ...good, agent_leaves: 'yes' }, { otherServer: 'two (id)' }],
  ['clock', 'fail', '3600 s ahead', { ...good, clock: now / 1000 + 3600 }],
])('%s', (name, status, words, facts, expected) => {
  test(`${status}: ${words}`, () => {
    const found = check(name, facts, expected);
    expect(found?.status).toBe(status);
    expect(found?.message).toContain(words);
    expect(found?.remediation === null).toBe(status === 'pass');
  });
});

describe('a distribution on which nothing is installed', () => {
  const fedora: Facts = { ...good, os: 'fedora', os_version: '43', os_name: 'Fedora Linux 43', packages: 'dnf' };
  const without = (...names: (keyof Facts)[]): Facts => {
    const facts = { ...fedora };
    for (const name of names) delete facts[name];
    return facts;
  };

  test.each<[string, Facts]>([
    ['the Docker engine 20.10 or later', without('docker', 'docker_client', 'docker_socket')],
    ['git', without('git')],
    ['iptables', without('iptables')],
    ['curl', without('fetch')],
    [
      'the Docker engine 20.10 or later, git, iptables, curl',
      without('docker', 'docker_client', 'git', 'iptables', 'fetch'),
    ],
  ])('is told to get %s by hand, and nothing else', (missing, facts) => {
    expect(check('operating_system', facts)).toMatchObject({
      status: 'fail',
      message: 'It runs Fedora Linux 43, on which provisioning installs nothing',
      remediation: `Install there by hand what is missing: ${missing}; or use Debian 12, Ubuntu 22.04 or later`,
    });
  });
});

test('only what provisioning installs can be mended by it', () => {
  const mended = requirementsOf({ ...noEngine, git: undefined }, { login: 'key', now, otherServer: undefined }).filter(
    (it) => it.auto_fixable,
  );
  expect(mended.map(({ name }) => name)).toEqual(['engine', 'git']);
});

test('what a machine says beside the facts is passed over', () => {
  const text = 'Welcome!\nkernel=Linux\n=x\nnonsense=1\nroot=maybe\ndisk_free_kib=many\nclock=12\nconstructor=x\n';
  expect(parseFacts(text)).toEqual({ kernel: 'Linux', init: 'other', clock: 12 });
});

test('the script prints the facts that are read, and no other', async () => {
  const script = await readFile(new URL('../../../controllers/ssh/look.sh', import.meta.url), 'utf8');
  const printed = [...script.matchAll(/\bfact ([a-z_]+) (?:"|[a-z]+(?:$|;))/gm)].map(([, name]) => name);
  const read = Object.keys(Facts.shape).filter((name) => !name.startsWith('port_'));
  expect(new Set(printed)).toEqual(new Set(read));
});

test('facts are short and printable, whatever a machine says', () => {
  const hostile = `Odd\u001B[2J\u202E ${'x'.repeat(30_000)}`;
  const names = Object.keys(Facts.shape);
  const facts = parseFacts(names.map((name) => `${name}=${hostile}\n`).join(''));
  expect(facts.os_name).toMatch(/^Odd \[2J x+…$/);
  expect(JSON.stringify(facts).length).toBeLessThan(names.length * 250);
  expect(JSON.stringify(facts)).not.toMatch(/\\u|[\p{C}]/u);
});
