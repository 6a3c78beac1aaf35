import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './program.ts';
import { until } from './until.ts';

const exec = promisify(execFile);

export interface TestSshd extends AsyncDisposable {
  port: number;
  username: string;
  pid: number;
  /** Of the key that it takes. */
  privateKey: string;
  keyFile: string;
  /** Of its host key, as `ssh-keygen -l` prints it. */
  fingerprint: string;
  /** The line of its host key, without a host. */
  hostKey: string;
  /** Ends it, as a machine that goes down. */
  kill(): Promise<void>;
}

export interface SshdOptions {
  /** Further lines of its configuration; of several lines for a setting the first one holds. */
  settings?: readonly string[];
  /** By default a free one. */
  port?: number;
}

/** The real sshd on loopback, for the current user with a key made for it. */
export async function startSshd({ settings = [], port: wanted }: SshdOptions = {}): Promise<TestSshd> {
  const home = await mkdtemp(join(tmpdir(), 'setpoint-ssh-'));
  const file = (name: string): string => join(home, name);
  for (const name of ['host_key', 'user_key'])
    await exec('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file(name)]);
  await writeFile(file('authorized_keys'), await readFile(file('user_key.pub')), { mode: 0o600 });
  const port = wanted ?? (await freePort());
  const lines = [
    ...settings,
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey ${file('host_key')}`,
    `AuthorizedKeysFile ${file('authorized_keys')}`,
    `PidFile ${file('pid')}`,
    'PermitRootLogin prohibit-password',
    'PasswordAuthentication no',
    'UsePAM no',
    'StrictModes no',
    'LogLevel ERROR',
  ];
  await writeFile(file('sshd_config'), `${lines.join('\n')}\n`);
  await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
  const daemon = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', file('sshd_config')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const failed = once(daemon, 'error').then(([error]) => {
    throw new Error('Cannot start sshd', { cause: error });
  });
  await Promise.race([listening(port, daemon.stderr), failed]);
  const { stdout } = await exec('ssh-keygen', ['-l', '-f', file('host_key.pub')]);
  const kill = async (): Promise<void> => {
    daemon.kill('SIGKILL');
    if (daemon.exitCode === null && daemon.signalCode === null) await once(daemon, 'exit');
  };
  return {
    port,
    username: userInfo().username,
    pid: daemon.pid ?? 0,
    privateKey: await readFile(file('user_key'), 'utf8'),
    keyFile: file('user_key'),
    fingerprint: stdout.split(' ')[1] ?? '',
    hostKey: (await readFile(file('host_key.pub'), 'utf8')).trim(),
    kill,
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(home, { recursive: true });
    },
  };
}

async function listening(port: number, log: NodeJS.ReadableStream): Promise<void> {
  let output = '';
  log.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await until(
    `sshd listens on ${port}`,
    async () => {
      const socket = createConnection({ port, host: '127.0.0.1' });
      try {
        await once(socket, 'connect');
        return true;
      } finally {
        socket.destroy();
      }
    },
    { explain: async () => output },
  );
}
