import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import ssh2 from 'ssh2';
import { describe, expect, test } from 'vitest';
import { keyPairOf } from '../../../api/ssh-keys/key-pair.ts';
import { commands, connect } from '../../../controllers/ssh/connection.ts';
import type { SshTarget } from '../../../controllers/ssh/connection.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import { startSshd } from '../../harness/sshd.ts';
import type { TestSshd } from '../../harness/sshd.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';

const never = new AbortController().signal;

const targetOf = (sshd: TestSshd, over: Partial<SshTarget> = {}): SshTarget => ({
  address: '127.0.0.1',
  port: sshd.port,
  username: sshd.username,
  login: { type: 'key', privateKey: sshd.privateKey },
  ...over,
});

async function failureOf(work: Promise<unknown>): Promise<SshFailure> {
  const outcome = await work.then(
    () => new Error('It succeeded'),
    (error: unknown) => error,
  );
  if (!(outcome instanceof SshFailure)) throw new Error('It is no SshFailure', { cause: outcome });
  return outcome;
}

describe('a real sshd', () => {
  test('runs a script that comes by its input, and tells its host key as ssh-keygen does', async () => {
    await using sshd = await startSshd();
    await using connection = await connect(targetOf(sshd), never);
    expect(connection.hostKey).toEqual({ type: 'ssh-ed25519', fingerprint: sshd.fingerprint });
    const result = await connection.run(commands.plain, ['echo out; echo err >&2; exit 7\n'], never);
    expect(result).toEqual({ code: 7, stdout: 'out\n', stderr: 'err\n' });
  });

  test('takes 20 MB of input, and only the last 64 KiB of output are kept', async () => {
    await using sshd = await startSshd();
    await using connection = await connect(targetOf(sshd), never);
    const block = Buffer.alloc(1024 * 1024, 'x');
    function* input(): Generator<string | Uint8Array> {
      yield 'cat | wc -c; head -c 300000 /dev/zero | tr "\\0" y; exit\n';
      for (let sent = 0; sent < 20; sent++) yield block;
    }
    const { code, stdout } = await connection.run(commands.plain, input(), never);
    expect(code).toBe(0);
    expect(stdout).toHaveLength(64 * 1024);
  });

  test('is not logged in to with another host key than the pinned one', async () => {
    await using sshd = await startSshd();
    const hostKey = { type: 'ssh-ed25519', fingerprint: 'SHA256:AAAA' };
    const failure = await failureOf(connect(targetOf(sshd, { hostKey }), never));
    expect(failure.code).toBe('host_key_changed');
    expect(failure.hostKey?.fingerprint).toBe(sshd.fingerprint);
    expect(failure.message).toContain(sshd.fingerprint);
  });

  test('with several host keys shows the one that is pinned', async () => {
    const home = await mkdtemp(join(tmpdir(), 'setpoint-host-key-'));
    try {
      const file = join(home, 'rsa');
      await promisify(execFile)('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-N', '', '-f', file]);
      const { stdout } = await promisify(execFile)('ssh-keygen', ['-l', '-f', `${file}.pub`]);
      const hostKey = { type: 'ssh-rsa', fingerprint: stdout.split(' ')[1] ?? '' };
      await using sshd = await startSshd({ settings: [`HostKey ${file}`] });
      await using connection = await connect(targetOf(sshd, { hostKey }), never);
      expect(connection.hostKey).toEqual(hostKey);
      await using first = await connect(targetOf(sshd), never);
      expect(first.hostKey.fingerprint).toBe(sshd.fingerprint);
    } finally {
      await rm(home, { recursive: true });
    }
  });

  test('that falls silent ends the run with a failure', { tags: 'long', timeout: 60_000 }, async () => {
    await using sshd = await startSshd();
    await using wire = await TcpProxy.start(sshd.port);
    const port = Number(wire.host.split(':')[1]);
    await using connection = await connect(targetOf(sshd, { port }), never);
    const running = connection.run(commands.plain, ['sleep 600\n'], never);
    wire.holdAnswers();
    expect((await failureOf(running)).code).toBe('cut');
  });

  test('refuses another key, and says so', async () => {
    await using sshd = await startSshd();
    await using other = await startSshd();
    const login = { type: 'key', privateKey: other.privateKey } as const;
    const failure = await failureOf(connect(targetOf(sshd, { login }), never));
    expect(failure.code).toBe('auth_failed');
    expect(failure.hostKey?.fingerprint).toBe(sshd.fingerprint);
  });

  test('that goes away ends the run with a failure', async () => {
    await using sshd = await startSshd();
    await using connection = await connect(targetOf(sshd), never);
    const running = connection.run(commands.plain, ['echo $PPID; kill -9 $PPID; sleep 60\n'], never);
    expect((await failureOf(running)).code).toBe('cut');
  });

  test('is left at once when the signal aborts', async () => {
    await using sshd = await startSshd();
    await using connection = await connect(targetOf(sshd), never);
    const stop = new AbortController();
    const running = connection.run(commands.plain, ['sleep 60\n'], stop.signal);
    stop.abort(new Error('No longer needed'));
    await expect(running).rejects.toThrow('No longer needed');
  });

  test('gets no key that is damaged', async () => {
    await using sshd = await startSshd();
    const login = { type: 'key', privateKey: 'damaged' } as const;
    expect((await failureOf(connect(targetOf(sshd, { login }), never))).code).toBe('bad_key');
  });
});

describe('what is no SSH server', () => {
  test('cannot be told from a closed port', async () => {
    await using sshd = await startSshd();
    const web = createServer((socket) => {
      socket.resume().on('error', () => undefined);
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    }).listen(0, '127.0.0.1');
    await once(web, 'listening');
    const { port } = web.address() as AddressInfo;
    const found = await failureOf(connect(targetOf(sshd, { port }), never));
    web.close();
    await once(web, 'close');
    const closed = await failureOf(connect(targetOf(sshd, { port }), never));
    expect([found.code, found.message, found.remedy]).toEqual([closed.code, closed.message, closed.remedy]);
    expect(found.code).toBe('unreachable');
  });
});

describe('a server that asks', () => {
  interface Prompt {
    prompt: string;
    echo: boolean;
  }
  /** Asks as PAM does, and says what it was answered. */
  async function asking(prompts: Prompt[], secret: string) {
    // the generator of ssh2 makes one of 256 keys malformed
    const pair = keyPairOf({ generate: 'ed25519' });
    if ('fault' in pair) throw new Error(pair.fault);
    const answered: string[][] = [];
    const server = new ssh2.Server({ hostKeys: [pair.privateKey] }, (client) => {
      client.on('error', () => undefined);
      client.on('authentication', (attempt) => {
        if (attempt.method !== 'keyboard-interactive') return attempt.reject(['keyboard-interactive']);
        attempt.prompt(prompts, (answers) => {
          answered.push(answers);
          if (answers[0] === secret) attempt.accept();
          else attempt.reject();
        });
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return {
      port: (server.address() as AddressInfo).port,
      answered,
      async [Symbol.asyncDispose]() {
        await new Promise<void>((resolve) => server.close(() => resolve()));
      },
    };
  }
  const target = (port: number): SshTarget => ({
    address: '127.0.0.1',
    port,
    username: 'root',
    login: { type: 'password', password: 'right' },
  });

  test('gets the password as the answer to one hidden prompt', async () => {
    await using server = await asking([{ prompt: 'Password: ', echo: false }], 'right');
    await using connection = await connect(target(server.port), never);
    expect(connection.hostKey.type).toBe('ssh-ed25519');
    expect(server.answered).toEqual([['right']]);
  });

  test('does not get the password with another host key than the pinned one', async () => {
    await using server = await asking([{ prompt: 'Password: ', echo: false }], 'right');
    const hostKey = { type: 'ssh-ed25519', fingerprint: `SHA256:${'a'.repeat(43)}` };
    expect((await failureOf(connect({ ...target(server.port), hostKey }, never))).code).toBe('host_key_changed');
    expect(server.answered).toEqual([]);
  });

  test.each([
    [
      'two prompts',
      [
        { prompt: 'Password: ', echo: false },
        { prompt: 'Code: ', echo: false },
      ],
    ],
    ['a prompt that shows what is typed', [{ prompt: 'Name: ', echo: true }]],
  ])('does not get the password by %s', async (_, prompts) => {
    await using server = await asking(prompts, 'right');
    expect((await failureOf(connect(target(server.port), never))).code).toBe('auth_failed');
    expect(server.answered.flat()).not.toContain('right');
  });
});
