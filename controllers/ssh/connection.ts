import { once } from 'node:events';
import { connect as openSocket } from 'node:net';
import type { Socket } from 'node:net';
import type { Client, ClientChannel, ConnectConfig } from 'ssh2';
import { algorithmsFor, hostKeyOf } from './host-key.ts';
import type { HostKey, PinnedKey } from './host-key.ts';
import { SshFailure } from './ssh-failure.ts';
import { afterSudo, authenticate, sudoByPassword } from './sudo.ts';

/** What logs in: a private key without a passphrase, or a password, which also answers `sudo`. */
export type SshLogin = { type: 'key'; privateKey: string } | { type: 'password'; password: string };

export interface SshTarget {
  /** IPv4 or IPv6. Names are resolved, and their addresses judged, by {@link reachableAddress}. */
  address: string;
  port: number;
  username: string;
  login: SshLogin;
  /** The pinned key. Without one the key that the machine shows is accepted; the caller pins it. */
  hostKey?: PinnedKey | undefined;
}

/** What a program left behind. */
export interface RemoteResult {
  /** `undefined`: a signal ended it. */
  code: number | undefined;
  /** At most 64 KiB, the last ones. */
  stdout: string;
  stderr: string;
}

/** What came of a script that sudo was to run by a password. */
export interface SudoResult extends RemoteResult {
  /**
   * Nothing was run. `refuses`: sudo asked, and did not take the answer; `fails`: it ended without a question. Then
   * `stderr` is what it said about that.
   */
  refusal?: 'refuses' | 'fails';
}

/** A logged-in connection. It forwards nothing: no agent, no ports, no terminal. */
export interface SshConnection extends AsyncDisposable {
  readonly hostKey: HostKey;
  /**
   * Runs a command of this program, never text of a user: what varies goes through `input`.
   *
   * @throws SshFailure `cut`, `timeout`; the reason of the signal
   */
  run(command: RemoteCommand, input: Iterable<string | Uint8Array>, signal: AbortSignal): Promise<RemoteResult>;
  /**
   * Runs a script of this program as root, by a sudo that asks for the password. It gets the password once, as the
   * answer to its question; a script is sent only after that.
   *
   * @throws SshFailure `cut`, `timeout`; the reason of the signal
   */
  runBySudo(password: string, input: Iterable<string | Uint8Array>, signal: AbortSignal): Promise<SudoResult>;
}

/** The commands that are ever sent, beside that of {@link sudoByPassword}. `sh -s` reads the script from its input, so that nothing is put into a command. */
export const commands = {
  plain: 'sh -s',
  /** As root, where sudo asks for nothing. */
  sudo: 'sudo -n -- sh -s',
} as const;
export type RemoteCommand = (typeof commands)[keyof typeof commands];

const outputBytes = 64 * 1024;
const readyMs = 15_000;
const keepaliveMs = 5_000;
const missedKeepalives = 3;

/**
 * Logs in.
 *
 * @throws SshFailure, whose `hostKey` is set for `host_key_changed` and `auth_failed`; the reason of the signal
 */
export async function connect(target: SshTarget, signal: AbortSignal): Promise<SshConnection> {
  const socket = await reach(target, signal);
  // The library destroys a socket only while it can be written to.
  await using started = new AsyncDisposableStack();
  started.defer(() => void socket.destroy());
  const { default: ssh2 } = await import('ssh2'); // few installations need it
  const client = new ssh2.Client();
  let seen: HostKey | undefined;
  let isOther = false;
  const cut = new AbortController();
  const ready = Promise.withResolvers<void>();
  let isReady = false;
  const over = (error: Error & { level?: string }): void => {
    if (isReady) cut.abort(new SshFailure(...broken, { cause: error, hostKey: seen }));
    else ready.reject(failureOf(error, { seen, isOther, target }));
  };
  client.on('ready', () => {
    isReady = true;
    ready.resolve();
  });
  // A connection that breaks later says so here: without a listener it would end the process.
  client.on('error', over);
  client.on('close', () => over(new Error('Connection closed')));
  answerPrompts(client, target.login);
  const abort = (): void => ready.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  started.defer(() => signal.removeEventListener('abort', abort));
  begin(client, {
    sock: socket,
    username: target.username,
    readyTimeout: readyMs,
    keepaliveInterval: keepaliveMs,
    keepaliveCountMax: missedKeepalives,
    algorithms: { serverHostKey: algorithmsFor(target.hostKey) },
    hostVerifier: (blob: Buffer) => {
      seen = hostKeyOf(blob);
      isOther = target.hostKey !== undefined && seen.fingerprint !== target.hostKey.fingerprint;
      return !isOther;
    },
    ...loginOf(target.login),
  });
  await ready.promise;
  if (seen === undefined) throw unreachable(undefined);
  const hostKey = seen;
  const all = started.move();
  return {
    hostKey,
    run: (command, input, runSignal) =>
      converse(client, command, AbortSignal.any([runSignal, cut.signal]), (channel) => feed(channel, input)),
    runBySudo: (password, input, runSignal) =>
      runBySudo(client, password, input, AbortSignal.any([runSignal, cut.signal])),
    async [Symbol.asyncDispose]() {
      client.end();
      await all.disposeAsync();
    },
  };
}

/** @throws SshFailure `unreachable`; the signal's reason */
async function reach({ address, port }: SshTarget, signal: AbortSignal): Promise<Socket> {
  const socket = openSocket({ host: address, port });
  // After its connection the client listens.
  socket.on('error', () => undefined);
  try {
    await once(socket, 'connect', { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    throw unreachable(error);
  }
}

/** @throws SshFailure `bad_key`: the library says so at once */
function begin(client: Client, config: ConnectConfig): void {
  try {
    client.connect(config);
  } catch (error) {
    throw new SshFailure(
      'bad_key',
      'Its SSH key cannot be read',
      'Replace the secret of the key: setpoint set ssh-key KEY --private-key FILE',
      { cause: error },
    );
  }
}

function loginOf(login: SshLogin): ConnectConfig {
  if (login.type === 'password') return { password: login.password, tryKeyboard: true };
  return { privateKey: login.privateKey };
}

/** Machines with PAM often take a password only as the answer to a prompt. Anything but one hidden prompt is refused. */
function answerPrompts(client: Client, login: SshLogin): void {
  client.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) => {
    const [prompt] = prompts;
    const isPassword = prompts.length === 1 && prompt?.echo !== true;
    finish(isPassword && login.type === 'password' ? [login.password] : []);
  });
}

const broken = ['cut', 'The connection broke', 'Check the network between, and that the machine is up'] as const;

/** No SSH server was met, for whatever reason. */
export function unreachable(cause: unknown): SshFailure {
  return new SshFailure(
    'unreachable',
    'No SSH server answers at its address and port',
    'Check both (setpoint set server SERVER --address ADDRESS --port PORT changes them), that the machine is up and runs sshd, and that no firewall is between',
    { cause },
  );
}

function failureOf(
  error: Error & { level?: string },
  { seen, isOther, target }: { seen: HostKey | undefined; isOther: boolean; target: SshTarget },
): SshFailure {
  if (isOther && seen !== undefined && target.hostKey !== undefined)
    return new SshFailure(
      'host_key_changed',
      `Its host key is another one, as if another machine answered: ${seen.type} ${seen.fingerprint} in place of ${target.hostKey.fingerprint}`,
      `If it was installed anew, compare the fingerprint on its console, and trust the new key: setpoint trust-host-key SERVER ${seen.fingerprint}`,
      { cause: error, hostKey: seen },
    );
  if (error.level === 'client-authentication')
    return new SshFailure(
      'auth_failed',
      target.login.type === 'key'
        ? `It refuses the key for the user ${target.username}`
        : `It refuses the password for the user ${target.username}`,
      target.login.type === 'key'
        ? 'Add the public half to ~/.ssh/authorized_keys of that user: setpoint describe ssh-key KEY shows it'
        : 'Check both (setpoint set server SERVER --user NAME, setpoint set ssh-key KEY --password), and that sshd allows passwords',
      { cause: error, hostKey: seen },
    );
  return unreachable(error);
}

async function runBySudo(
  client: Client,
  password: string,
  input: Iterable<string | Uint8Array>,
  signal: AbortSignal,
): Promise<SudoResult> {
  const { command, marks } = sudoByPassword();
  const sudo: { state: 'silent' | 'answered' | 'runs' } = { state: 'silent' };
  const result = await converse(client, command, signal, async (channel) => {
    const answer = (): void => {
      sudo.state = 'answered';
      channel.write(`${password}\n`);
    };
    const hasBegun = await authenticate(channel.stderr, marks, answer);
    if (hasBegun) sudo.state = 'runs';
    // without another answer sudo ends
    await feed(channel, hasBegun ? input : []);
  });
  const stderr = afterSudo(result.stderr, marks);
  if (sudo.state === 'runs') return { ...result, stderr };
  return { ...result, stderr, refusal: sudo.state === 'answered' ? 'refuses' : 'fails' };
}

/** Starts a command, talks to it, and answers with what it left behind. */
async function converse(
  client: Client,
  command: string,
  signal: AbortSignal,
  talk: (channel: ClientChannel) => Promise<void>,
): Promise<RemoteResult> {
  signal.throwIfAborted();
  const opened = Promise.withResolvers<ClientChannel>();
  const abortOpening = (): void => opened.reject(signal.reason);
  signal.addEventListener('abort', abortOpening, { once: true });
  client.exec(command, (error, channel) => {
    if (error !== undefined)
      opened.reject(
        new SshFailure('cut', 'It refuses to run programs', 'Let the user run programs: look at ForceCommand of sshd', {
          cause: error,
        }),
      );
    else if (signal.aborted) channel.destroy();
    else opened.resolve(channel);
  });
  const channel = await opened.promise.finally(() => signal.removeEventListener('abort', abortOpening));
  const stdout = lastBytes();
  const stderr = lastBytes();
  channel.on('data', stdout.add);
  channel.stderr.on('data', stderr.add);
  const ended = Promise.withResolvers<number | undefined>();
  let code: number | undefined;
  channel.on('exit', (status: number | null) => {
    code = status ?? undefined;
  });
  channel.on('close', () => ended.resolve(code));
  // A program that reads no further than it needs closes its input.
  channel.on('error', () => undefined);
  const abort = (): void => {
    channel.signal('KILL');
    channel.destroy();
    ended.reject(signal.reason);
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    await Promise.race([talk(channel), ended.promise]);
    const status = await ended.promise;
    return { code: status, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function feed(channel: ClientChannel, input: Iterable<string | Uint8Array>): Promise<void> {
  for (const part of input) {
    if (channel.destroyed) return;
    if (!channel.write(part)) await drained(channel);
  }
  channel.end();
}

function drained(channel: ClientChannel): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      channel.off('drain', done);
      channel.off('close', done);
      resolve();
    };
    channel.on('drain', done);
    channel.on('close', done);
  });
}

/** Keeps the last {@link outputBytes} of what is added. */
function lastBytes(): { add: (chunk: Buffer) => void; text: () => string } {
  let kept: Buffer = Buffer.alloc(0);
  return {
    add(chunk) {
      kept = Buffer.concat([kept, chunk]);
      if (kept.length > outputBytes) kept = kept.subarray(kept.length - outputBytes);
    },
    text: () => kept.toString('utf8'),
  };
}
