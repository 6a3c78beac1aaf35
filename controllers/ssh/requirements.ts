import type { CheckResult } from '../../agent-protocol/diagnosis.ts';
import type { SshLogin } from './connection.ts';
import type { Facts } from './facts.ts';

/** What a machine needs to become a server, in the order in which it is shown. */
export const requirements = [
  'privileges',
  'operating_system',
  'architecture',
  'engine',
  'git',
  'service_manager',
  'disk',
  'memory',
  'ports',
  'clock',
  'agent',
] as const;
export type Requirement = (typeof requirements)[number];

/** What the checks compare the facts with. */
export interface Expectation {
  login: SshLogin['type'];
  /** Milliseconds since 1970, when the facts were taken. */
  now: number;
  /** The server whose agent is on the machine, if it is another one. */
  otherServer: string | undefined;
}

/** What a machine needs at least, and what it should have. */
export const machineNeeds = {
  engine: [20, 10],
  diskFailKib: 2 * 1024 ** 2,
  diskWarnKib: 10 * 1024 ** 2,
  memoryFailKib: 400 * 1024,
  memoryWarnKib: 900 * 1024,
  inodesFail: 10_000,
  clockWarnMs: 30_000,
  clockFailMs: 300_000,
} as const;

/** Of each distribution the oldest release on which all of this is tried, and the oldest one that the agent runs on. */
const distributions: Readonly<Record<string, { name: string; from: number; oldest: number }>> = {
  debian: { name: 'Debian', from: 12, oldest: 10 },
  ubuntu: { name: 'Ubuntu', from: 22.04, oldest: 20.04 },
};
const architectures: Readonly<Record<string, string>> = { x86_64: 'x64', aarch64: 'arm64', arm64: 'arm64' };

type Found = Omit<CheckResult, 'name'>;
const pass = (message: string): Found => ({ status: 'pass', message, remediation: null, auto_fixable: false });
const warn = (message: string, remediation: string): Found => ({
  status: 'warn',
  message,
  remediation,
  auto_fixable: false,
});
const fail = (message: string, remediation: string): Found => ({ ...warn(message, remediation), status: 'fail' });
const installed = (message: string): Found => ({
  status: 'warn',
  message,
  remediation: 'Provisioning installs it',
  auto_fixable: true,
});

/** Judges what was found on a machine. Pure. */
export function requirementsOf(facts: Facts, expected: Expectation): CheckResult[] {
  return requirements.map((name) => ({ name, ...judges[name](facts, expected) }));
}

const judges: Readonly<Record<Requirement, (facts: Facts, expected: Expectation) => Found>> = {
  privileges({ root, sudo, sudo_says: says }, { login }) {
    if (root === 'yes') return pass('The login is root');
    if (sudo === 'free') return pass('sudo asks for no password');
    if (sudo === 'asks' && login === 'password') return pass('sudo asks for the password, which is known');
    // on some systems a rule of all users
    if (sudo !== undefined && says?.includes('must have a tty') === true)
      return fail(
        'sudo runs from a terminal only (requiretty), and there is none',
        'Take that from the user: Defaults:USER !requiretty in /etc/sudoers.d',
      );
    const said = says === undefined ? '' : `. It said: ${says}`;
    if (sudo === 'refuses')
      return fail(
        `sudo does not take the password of the login${said}`,
        'Let the user run sudo by it: add the user to the group sudo, or write a rule in /etc/sudoers.d',
      );
    if (sudo === 'fails')
      return fail(
        `sudo runs nothing${said}`,
        'Let the user run sudo from a connection without a terminal: try `ssh USER@ADDRESS sudo -n id`',
      );
    if (sudo === 'asks')
      return fail(
        'sudo asks for a password, and the login is by a key',
        'Let the user run sudo without a password (NOPASSWD in /etc/sudoers.d), or log in as root or by a password',
      );
    return fail('The login is not root, and there is no sudo', 'Log in as root, or install sudo for the user');
  },
  operating_system(facts) {
    const { kernel, os, os_version, os_name } = facts;
    const name = os_name ?? kernel ?? 'unknown';
    if (kernel !== 'Linux') return fail(`It runs ${name}`, 'Use a machine with Linux');
    if (facts.libc === 'musl')
      return fail(
        `It runs ${name}, whose C library is musl: the agent does not run there`,
        'Use a distribution with glibc, such as Debian 12 or Ubuntu 22.04',
      );
    const known = os === undefined ? undefined : distributions[os];
    if (known !== undefined && Number(os_version) >= known.from) return pass(`It runs ${name}`);
    // testing and unstable have no number
    if (known !== undefined && os_version === undefined) return pass(`It runs ${name}`);
    if (known !== undefined && Number(os_version) < known.oldest)
      return fail(`It runs ${name}, which is too old`, `Use ${known.name} ${known.from} or later`);
    const missing = missingOn(facts);
    if (missing.length === 0)
      return warn(
        `It runs ${name}, on which this is not tried`,
        'Everything that is needed is there; keep it up to date yourself',
      );
    return fail(
      `It runs ${name}, on which provisioning installs nothing`,
      `Install there by hand what is missing: ${missing.join(', ')}; or use Debian 12, Ubuntu 22.04 or later`,
    );
  },
  architecture({ machine }) {
    const known = machine === undefined ? undefined : architectures[machine];
    return known === undefined
      ? fail(`Its architecture is ${machine ?? 'unknown'}`, 'Use a machine with x86_64 or aarch64')
      : pass(`Its architecture is ${known}`);
  },
  engine({ docker, docker_client, docker_socket, packages, root, sudo }) {
    if (docker !== undefined) {
      const [major = 0, minor = 0] = docker.split('.').map(Number);
      const [wantedMajor, wantedMinor] = machineNeeds.engine;
      return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)
        ? pass(`Docker ${docker} answers`)
        : fail(`Docker ${docker} is too old`, `Upgrade it to ${wantedMajor}.${wantedMinor} or later`);
    }
    if (docker_client === undefined)
      return packages === 'apt-get'
        ? installed('Docker is not installed')
        : fail('Docker is not installed', 'Install the Docker engine 20.10 or later');
    if (docker_socket !== undefined && root !== 'yes' && sudo !== undefined)
      return warn(
        `Docker ${docker_client} is installed; whether it answers can be seen by root only`,
        'Nothing, if provisioning succeeds',
      );
    return fail(
      `Docker ${docker_client} is installed, but its engine does not answer`,
      'Start it: systemctl start docker, and read journalctl --unit docker',
    );
  },
  git({ git, packages }) {
    if (git !== undefined) return pass(`git ${git} is installed`);
    return packages === 'apt-get'
      ? installed('git is not installed')
      : fail('git is not installed', 'Install git: applications are fetched by it');
  },
  service_manager({ init }) {
    return init === 'systemd'
      ? pass('systemd runs services')
      : warn(
          'There is no systemd',
          'The agent runs under a supervisor of its own; start it at boot by what the machine has',
        );
  },
  disk({ disk_free_kib: free, inodes_free: inodes }) {
    if (free === undefined)
      return warn('Its free disk space is not known', 'Look at the output of df /var/lib/docker on it');
    const remedy = 'Free space below /var/lib/docker, or add a disk';
    if (inodes !== undefined && inodes > 0 && inodes < machineNeeds.inodesFail)
      return fail(`${inodes} inodes are free`, remedy);
    if (free < machineNeeds.diskFailKib) return fail(`${gib(free)} are free: too little for any image`, remedy);
    if (free < machineNeeds.diskWarnKib) return warn(`${gib(free)} are free`, remedy);
    return pass(`${gib(free)} are free`);
  },
  memory({ memory_kib: memory }) {
    if (memory === undefined) return warn('Its memory is not known', 'Look at the output of free on it');
    const remedy = 'Use a machine with 1 GiB or more';
    if (memory < machineNeeds.memoryFailKib) return fail(`It has ${gib(memory)} of memory`, remedy);
    if (memory < machineNeeds.memoryWarnKib) return warn(`It has ${gib(memory)} of memory`, remedy);
    return pass(`It has ${gib(memory)} of memory`);
  },
  ports(facts) {
    const taken = ([80, 443] as const).filter((port) => facts[`port_${port}`] === 'taken');
    return taken.length === 0
      ? pass('The ports 80 and 443 are free')
      : warn(
          `Another program listens on ${taken.map((port) => `port ${port}`).join(' and ')}`,
          'Stop it if applications of this server are to be reached there',
        );
  },
  clock({ clock }, { now }) {
    if (clock === undefined) return warn('Its clock is not known', 'Look at the output of date on it');
    const apart = Math.abs(clock * 1000 - now);
    const message = `Its clock is ${Math.round(apart / 1000)} s ${clock * 1000 > now ? 'ahead of' : 'behind'} that of the control plane`;
    const remedy = 'Synchronise it: timedatectl set-ntp true';
    if (apart > machineNeeds.clockFailMs) return fail(`${message}: certificates may not hold`, remedy);
    if (apart > machineNeeds.clockWarnMs) return warn(message, remedy);
    return pass('Its clock agrees with that of the control plane');
  },
  agent({ agent_leaves: leaves }, { otherServer }) {
    if (leaves === 'yes')
      return fail(
        `The agent of a server that was deleted removes itself from it${otherServer === undefined ? '' : `: ${otherServer}`}`,
        'Wait a minute. If it stays, remove it there: setpoint-agent uninstall, as root',
      );
    return otherServer === undefined
      ? pass('It has no agent of another server')
      : fail(
          `It has the agent of another server: ${otherServer}`,
          'Use another machine, or remove that agent there: setpoint-agent uninstall, as root, which stops what it runs',
        );
  },
};

/** What a server needs and the machine does not have. An engine that is installed can be started. */
function missingOn({ docker, docker_client, git, iptables, fetch }: Facts): string[] {
  const [major, minor] = machineNeeds.engine;
  return [
    ...((docker ?? docker_client) === undefined ? [`the Docker engine ${major}.${minor} or later`] : []),
    ...(git === undefined ? ['git'] : []),
    ...(iptables === undefined ? ['iptables'] : []),
    ...(fetch === undefined ? ['curl'] : []),
  ];
}

function gib(kib: number): string {
  return `${(kib / 1024 ** 2).toFixed(1)} GiB`;
}
