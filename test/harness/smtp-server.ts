import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './program.ts';
import { until } from './until.ts';

/** A mail as the server kept it. */
export interface ReceivedMail {
  from: string;
  to: string;
  subject: string;
  text: string;
  /** All of it, as it came over the wire. */
  raw: string;
}

/** A real SMTP server on loopback that keeps what it is sent. */
export interface SmtpTestServer extends AsyncDisposable {
  url: string;
  port: number;
  /** Everything that came for an address, oldest first. */
  mailTo(address: string): Promise<ReceivedMail[]>;
  /** Resolves with the `n`th mail for an address, counted from 1, once it is there. */
  received(address: string, n?: number): Promise<ReceivedMail>;
}

/** With `password`, it takes mail only from the user `mailer` who proves to have it. */
export async function startSmtpServer({ password }: { password?: string } = {}): Promise<SmtpTestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-mail-'));
  const maildir = join(folder, 'box');
  const port = await freePort();
  const [program, argv] =
    password === undefined
      ? ['aiosmtpd', ['-n', '-l', `127.0.0.1:${port}`, '-c', 'aiosmtpd.handlers.Mailbox', maildir]]
      : [await interpreterOf('aiosmtpd'), ['-W', 'ignore', '-c', withPassword, String(port), maildir]];
  const env = { PATH: process.env['PATH'], ...(password !== undefined && { SMTP_PASSWORD: password }) };
  const child = spawn(program, argv, { stdio: 'ignore', env });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`Cannot start ${program}`, { cause: error });
  });
  const exited = once(child, 'exit');
  const killAtExit = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtExit);
  await Promise.race([until('aiosmtpd accepts mail', () => accepts(port)), failed]);
  const mailTo = async (address: string): Promise<ReceivedMail[]> => {
    const names = await readdir(join(maildir, 'new')).catch(() => []);
    const mails = await Promise.all(
      names
        .toSorted((a, b) => arrival(a) - arrival(b))
        .map(async (name) => parse(await readFile(join(maildir, 'new', name), 'utf8'))),
    );
    return mails.filter(({ to }) => to === address);
  };
  return {
    url: `smtp://127.0.0.1:${port}`,
    port,
    mailTo,
    async received(address, n = 1) {
      return until(`mail ${n} for ${address}`, async () => (await mailTo(address))[n - 1]);
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await exited;
      process.off('exit', killAtExit);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** What runs a script that is found like a command: no other Python may have its modules. */
async function interpreterOf(command: string): Promise<string> {
  for (const folder of (process.env['PATH'] ?? '').split(':')) {
    const script = await readFile(join(folder, command), 'utf8').catch(() => undefined);
    const interpreter = script === undefined ? undefined : /^#!(\S+)\n/.exec(script)?.[1];
    if (interpreter !== undefined) return interpreter;
  }
  throw new Error(`Script with an interpreter was not found: ${command}`);
}

/** The command line of aiosmtpd knows no credentials. */
const withPassword = `
import os, sys, threading
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import AuthResult

def authenticate(server, session, envelope, mechanism, given):
    right = given.login == b'mailer' and given.password == os.environ['SMTP_PASSWORD'].encode()
    return AuthResult(success=right, handled=False)

Controller(
    Mailbox(sys.argv[2]), hostname='127.0.0.1', port=int(sys.argv[1]),
    authenticator=authenticate, auth_required=True, auth_require_tls=False,
).start()
threading.Event().wait()
`;

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** The number of a mail in a Maildir of one process; the times in its name are not padded, so that names do not sort. */
function arrival(name: string): number {
  return Number(/Q(\d+)\./.exec(name)?.[1]);
}

function parse(raw: string): ReceivedMail {
  const text = raw.replaceAll('\r\n', '\n');
  const at = text.indexOf('\n\n');
  const head = text.slice(0, at).replaceAll(/\n[ \t]+/g, ' ');
  const header = (name: string): string => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1] ?? '';
  const body = text.slice(at + 2);
  return {
    from: header('x-mailfrom'),
    to: header('x-rcptto'),
    subject: header('subject'),
    text: header('content-transfer-encoding') === 'quoted-printable' ? unquoted(body) : body,
    raw: text,
  };
}

function unquoted(body: string): string {
  const bytes = body
    .replaceAll('=\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
