import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startBareContainer } from './bare-container.ts';
import type { BareContainer, BareOptions } from './bare-container.ts';
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

/** Starts the machine. Its users are root and `ops`, who has no sudo. `program`: one that is to run there, the agent. */
export async function startSshMachine(program: string, flags: BareOptions['flags'] = []): Promise<SshMachine> {
  await using started = new AsyncDisposableStack();
  const home = await mkdtemp(join(tmpdir(), 'setpoint-ssh-machine-'));
  started.defer(() => rm(home, { recursive: true, force: true }));
  for (const name of ['host_key', 'user_key'])
    await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(home, name)]);
  const read = (name: string): Promise<string> => readFile(join(home, name), 'utf8');
  const machine = started.use(await startBareContainer(program, { programs, flags: [...flags] }));
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
      'ListenAddress 127.0.0.1',
      'HostKey /etc/ssh/host_key',
      'AuthorizedKeysFile /etc/ssh/authorized_keys',
      'PermitRootLogin prohibit-password',
      'PasswordAuthentication no',
      'UsePAM no',
      'StrictModes no',
      '',
    ].join('\n'),
    '/etc/setpoint/agent.env': 'SETPOINT_RUNTIME=mock\n',
  };
  await machine.run('mkdir -p /etc/ssh /etc/setpoint /run/sshd /root; chmod 755 /run/sshd');
  for (const [path, content] of Object.entries(files))
    await machine.run(`printf %s "$TEXT" >${path}`, { TEXT: content });
  await machine.run(
    'chmod 755 /usr/local/bin/apt-get; chmod 600 /etc/ssh/host_key /etc/setpoint/agent.env; chmod 1777 /tmp',
  );
  const daemon = await machine.run('/usr/sbin/sshd -E /var/log/sshd.log -f /etc/ssh/sshd_config');
  await until('its sshd listens', () => listens(port), {
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

async function listens(port: number): Promise<boolean> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  try {
    await once(socket, 'connect');
    return true;
  } finally {
    socket.destroy();
  }
}
