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

export async function startSmtpServer(): Promise<SmtpTestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-mail-'));
  const maildir = join(folder, 'box');
  const port = await freePort();
  const argv = ['-n', '-l', `127.0.0.1:${port}`, '-c', 'aiosmtpd.handlers.Mailbox', maildir];
  const child = spawn('aiosmtpd', argv, { stdio: 'ignore' });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error('Cannot start aiosmtpd', { cause: error });
  });
  const exited = once(child, 'exit');
  const killAtExit = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtExit);
  await Promise.race([until('aiosmtpd accepts mail', () => accepts(port)), failed]);
  const mailTo = async (address: string): Promise<ReceivedMail[]> => {
    const names = await readdir(join(maildir, 'new')).catch(() => []);
    const mails = await Promise.all(
      names
        .toSorted((a, b) => a.localeCompare(b))
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
