import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startBareContainer } from './bare-container.ts';
import type { BareContainer } from './bare-container.ts';
import { freePort } from './program.ts';
import { until } from './until.ts';

const execute = promisify(execFile);
const programs = ['/usr/sbin/sshd', '/usr/bin/flock', '/usr/bin/timeout', '/usr/bin/setsid'];

/** A machine that SSH reaches on loopback: a bare container with sshd, which says of itself that it is Debian 12. */
export interface SshMachine extends BareContainer {
  port: number;
  /** Of the key that it takes for its users. */
  privateKey: string;
  /** Of its host key, as `ssh-keygen -l` prints it. */
  fingerprint: string;
}

export interface SshMachineOptions {
  /** Flags of `docker run`. */
  flags?: readonly string[];
  /** The password by which `ops` logs in; its sudo asks for it. Without one `ops` has no password, and there is no sudo. */
  password?: string;
  /** Address on which its sshd listens. Default: `127.0.0.1`. */
  address?: string;
}

/** The real sudo, and what it and PAM load by name. */
const sudo = ['/usr/bin/sudo', '/usr/libexec/sudo/sudoers.so'];
const pamModules = ['pam_unix.so', 'pam_deny.so'];

/** What an `apt-get` installs that stands in for that of a distribution: programs that say what they are. */
const standIns = `#!/bin/sh
echo "apt-get $*" >>/var/log/apt-get.log
case "$*" in *install*) ;; *) exit 0 ;; esac
mkdir -p /etc/ssl/certs
printf '#!/bin/sh\\ncase "$1" in --version) echo "Docker version 26.1.5, build x" ;; version) echo 26.1.5 ;; esac\\n' >/usr/local/bin/docker
printf '#!/bin/sh\\necho "git version 2.39.5"\\n' >/usr/local/bin/git
printf '#!/bin/sh\\n' >/usr/local/bin/iptables
chmod 755 /usr/local/bin/*
`;
const release = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n';

/** Starts the machine. Its users are root and `ops`. `program`: one that is to run there, the agent. */
export async function startSshMachine(
  program: string,
  { flags = [], password, address = '127.0.0.1' }: SshMachineOptions = {},
): Promise<SshMachine> {
  await using started = new AsyncDisposableStack();
  const home = await mkdtemp(join(tmpdir(), 'setpoint-ssh-machine-'));
  started.defer(() => rm(home, { recursive: true, force: true }));
  for (const name of ['host_key', 'user_key'])
    await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(home, name)]);
  const read = (name: string): Promise<string> => readFile(join(home, name), 'utf8');
  const further = password === undefined ? [] : [...sudo, ...(await modulesOfPam())];
  const machine = started.use(
    await startBareContainer(program, { programs: [...programs, ...further], flags: [...flags] }),
  );
  const port = await freePort();
  const files: Readonly<Record<string, string>> = {
    '/etc/passwd':
      'root:x:0:0:root:/root:/bin/sh\nops:x:1000:1000:ops:/tmp:/bin/sh\nsshd:x:74:74:sshd:/run/sshd:/bin/false\n',
    '/etc/group': 'root:x:0:\nops:x:1000:\nsshd:x:74:\n',
    '/etc/os-release': release,
    '/usr/local/bin/apt-get': standIns,
    '/etc/ssh/host_key': await read('host_key'),
    '/etc/ssh/authorized_keys': await read('user_key.pub'),
    '/etc/ssh/sshd_config': [
      `Port ${port}`,
      `ListenAddress ${address}`,
      'HostKey /etc/ssh/host_key',
      'AuthorizedKeysFile /etc/ssh/authorized_keys',
      'PermitRootLogin prohibit-password',
      `PasswordAuthentication ${password === undefined ? 'no' : 'yes'}`,
      'UsePAM no',
      'StrictModes no',
      '',
    ].join('\n'),
    '/etc/setpoint/agent.env': 'SETPOINT_RUNTIME=mock\n',
    ...(password !== undefined && (await sudoFiles(password))),
  };
  await machine.run('mkdir -p /etc/ssh /etc/pam.d /etc/setpoint /run/sshd /root; chmod 755 /run/sshd');
  for (const [path, content] of Object.entries(files))
    await machine.run(`printf %s "$TEXT" >${path}`, { TEXT: content });
  await machine.run(
    'chmod 755 /usr/local/bin/apt-get; chmod 600 /etc/ssh/host_key /etc/setpoint/agent.env; chmod 1777 /tmp',
  );
  if (password !== undefined)
    await machine.run('chmod 4755 /usr/bin/sudo; chmod 440 /etc/sudoers; chmod 600 /etc/shadow');
  const daemon = await machine.run('/usr/sbin/sshd -E /var/log/sshd.log -f /etc/ssh/sshd_config');
  await until('its sshd listens', () => listens(port, address), {
    explain: async () => `${daemon.stderr}${(await machine.run('cat /var/log/sshd.log')).stdout}`,
  });
  const { stdout } = await execute('ssh-keygen', ['-l', '-f', join(home, 'host_key.pub')]);
  const privateKey = await read('user_key');
  const all = started.move();
  return {
    run: (line, env) => machine.run(line, env),
    port,
    privateKey,
    fingerprint: stdout.split(' ')[1] ?? '',
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The paths at which PAM loads them: in a folder that is named after the architecture. */
async function modulesOfPam(): Promise<string[]> {
  const { stdout } = await execute('dpkg-query', ['--listfiles', 'libpam-modules']);
  const files = stdout.split('\n');
  return pamModules.map((name) => {
    const found = files.find((file) => file.endsWith(`/security/${name}`));
    if (found === undefined) throw new Error(`The package libpam-modules has no ${name}`);
    return found;
  });
}

/** The users, of whom `ops` has that password, and a rule by which that one may run everything as root. */
async function sudoFiles(password: string): Promise<Readonly<Record<string, string>>> {
  const { stdout: hash } = await execute('openssl', ['passwd', '-6', password]);
  return {
    '/etc/shadow': `root:*:19000::::::\nops:${hash.trim()}:19000::::::\nsshd:*:19000::::::\n`,
    '/etc/sudoers': 'root ALL=(ALL) ALL\nops ALL=(ALL) ALL\n',
    '/etc/pam.d/sudo': 'auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_unix.so\n',
    '/etc/pam.d/other': 'auth required pam_deny.so\naccount required pam_deny.so\nsession required pam_deny.so\n',
  };
}

async function listens(port: number, host: string): Promise<boolean> {
  const socket = createConnection({ port, host });
  try {
    await once(socket, 'connect');
    return true;
  } finally {
    socket.destroy();
  }
}
