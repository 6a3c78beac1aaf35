import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deliverToLog, isRefused, Mailer } from '../../../controllers/mail/mailer.ts';
import type { Delivery, MailerOptions } from '../../../controllers/mail/mailer.ts';
import { deliverBySmtp, parseSmtpUrl } from '../../../controllers/mail/smtp.ts';
import { systemClock } from '../../../time/clock.ts';
import { startSmtpServer } from '../../harness/smtp-server.ts';

const mail = { to: 'ada@example.test', subject: 'A subject', text: 'Some text\n' };
const from = 'setpoint@example.test';
const never = new AbortController().signal;
let lines: string[];
let stack: AsyncDisposableStack;

beforeEach(() => {
  lines = [];
  stack = new AsyncDisposableStack();
});
afterEach(() => stack.disposeAsync());

function open(delivery: Delivery, limits: MailerOptions['limits'] = {}): Mailer {
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  return new Mailer({
    delivery,
    clock: systemClock,
    id: () => crypto.randomUUID(),
    log,
    registry: new Registry(),
    limits,
  });
}

/** A server that talks as the test says: the answer to each line, `undefined` for silence. */
async function talkingServer(
  answer: (line: string) => string | undefined,
  greeting = '220 ready\r\n',
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.write(greeting);
    socket.on('data', (data) => {
      for (const line of String(data)
        .split('\r\n')
        .filter((it) => it !== ''))
        socket.write(answer(line) ?? '');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a mailer', () => {
  it('hands mail to a server, with characters of every kind', async () => {
    const server = stack.use(await startSmtpServer());
    const mailer = stack.use(open(deliverBySmtp(parseSmtpUrl(server.url)!, from)));
    const text = 'Grüße — 12 ✓\n.\nA line that begins with a dot was above.\n';
    await mailer.send({ to: mail.to, subject: 'Einladung für dich\r\nBcc: eve@example.test', text }, never);
    const got = await server.received(mail.to);
    expect(got).toMatchObject({ from, to: mail.to });
    expect(got.text).toContain(text.trim());
    expect(got.raw).not.toMatch(/^Bcc:/m);
    expect(got.raw).toMatch(/^Auto-Submitted: auto-generated$/m);
    expect(await server.mailTo('eve@example.test')).toEqual([]);
  });

  it('takes a list of addresses for one that is wrong', async () => {
    const server = stack.use(await startSmtpServer());
    const mailer = stack.use(open(deliverBySmtp(parseSmtpUrl(server.url)!, from), { attempts: 1 }));
    await mailer.send({ ...mail, to: 'ada@example.test, eve@example.test' }, never).catch(() => undefined);
    expect(await server.mailTo('eve@example.test')).toEqual([]);
    expect(await server.mailTo('ada@example.test')).toEqual([]);
  });

  it('tries again where the server was busy, with the same id, and not where it refused', async () => {
    let codes = [451, 250];
    const host = await talkingServer((line) => {
      if (line.startsWith('RCPT')) return `${codes.shift()} no\r\n`;
      if (line === 'DATA') return '354 go on\r\n';
      return /^(EHLO|MAIL|\.$|QUIT)/.test(line) ? '250 ok\r\n' : undefined;
    });
    const ids: string[] = [];
    const bySmtp = deliverBySmtp(parseSmtpUrl(`smtp://${host}`)!, from);
    const mailer = stack.use(
      open(
        async (it, signal) => {
          ids.push(it.messageId);
          await bySmtp(it, signal);
        },
        { pauseMs: 1 },
      ),
    );
    await mailer.send(mail, never);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
    codes = [550, 250];
    await expect(mailer.send(mail, never)).rejects.toThrow('550 no');
    expect(codes).toEqual([250]);
  });

  it('gives up on a server that says nothing, and on one that is not there', async () => {
    const silent = await talkingServer(() => undefined, '');
    const mailer = stack.use(
      open(deliverBySmtp(parseSmtpUrl(`smtp://${silent}`)!, from), { deadlineMs: 50, attempts: 2, pauseMs: 1 }),
    );
    await expect(mailer.send(mail, never)).rejects.toThrow('did not take it within 50 ms');
    const absent = stack.use(
      open(deliverBySmtp(parseSmtpUrl('smtp://127.0.0.1:1')!, from), { attempts: 2, pauseMs: 1 }),
    );
    await expect(absent.send(mail, never)).rejects.toThrow('Cannot send mail by 127.0.0.1:1');
  });

  it('shows credentials in no error and no log, even if the server repeats them', async () => {
    const host = await talkingServer((line) => {
      if (line.startsWith('EHLO')) return '250-hello\r\n250 AUTH PLAIN LOGIN\r\n';
      return line.startsWith('AUTH') ? `535 wrong: ${line} s3cret/Word\r\n` : '250 ok\r\n';
    });
    const mailer = stack.use(
      open(deliverBySmtp(parseSmtpUrl(`smtp://post:s3cret%2FWord@${host}`)!, from), { attempts: 1 }),
    );
    const error = await mailer.send(mail, never).catch((it: unknown) => it);
    const shown = [String(error), JSON.stringify(error), ...lines].join('\n');
    expect(shown).toContain('535 wrong');
    for (const secret of ['s3cret', btoa('\0post\0s3cret/Word'), btoa('s3cret/Word')])
      expect(shown).not.toContain(secret);
  });

  it('sends credentials to another machine over TLS only', async () => {
    const lines: string[] = [];
    const host = await talkingServer((line) => {
      lines.push(line);
      return line.startsWith('EHLO') ? '250-hello\r\n250 AUTH PLAIN\r\n' : '502 no\r\n';
    });
    const server = { ...parseSmtpUrl(`smtp://post:secret@${host}`)!, host: '0.0.0.0' };
    const mailer = stack.use(open(deliverBySmtp(server, from), { attempts: 1 }));
    await expect(mailer.send(mail, never)).rejects.toThrow();
    expect(lines.some((line) => line.startsWith('AUTH'))).toBe(false);
    expect(lines).toContain('STARTTLS');
  });

  it('speaks plainly to a server on the machine itself, whose certificate could not be checked', async () => {
    const heard: string[] = [];
    const host = await talkingServer((line) => {
      heard.push(line);
      if (line.startsWith('EHLO')) return '250-hello\r\n250 STARTTLS\r\n';
      return line === 'DATA' ? '354 go on\r\n' : /^(MAIL|RCPT|\.$|QUIT)/.test(line) ? '250 ok\r\n' : undefined;
    });
    const mailer = stack.use(open(deliverBySmtp(parseSmtpUrl(`smtp://${host}`)!, from)));
    await mailer.send(mail, never);
    expect(heard).toContain('DATA');
    expect(heard).not.toContain('STARTTLS');
  });

  it('takes another attempt for useless only where the address or the mail was refused', async () => {
    const refusing = (at: string, answer: string) =>
      talkingServer((line) => {
        if (line.startsWith(at)) return answer;
        if (line === 'DATA') return '354 go on\r\n';
        return line.startsWith('EHLO')
          ? '250-hello\r\n250 AUTH PLAIN\r\n'
          : /^(AUTH|MAIL|RCPT|QUIT)/.test(line)
            ? '235 ok\r\n'.replace('235', line.startsWith('AUTH') ? '235' : '250')
            : undefined;
      });
    for (const [at, answer, isFinal] of [
      ['AUTH', '535 wrong password\r\n', false],
      ['MAIL', '553 sender not allowed\r\n', false],
      ['RCPT', '550 no such mailbox\r\n', true],
      ['.', '554 no spam\r\n', true],
    ] as const) {
      const host = await refusing(at, answer);
      const mailer = stack.use(
        open(deliverBySmtp(parseSmtpUrl(`smtp://post:secret@${host}`)!, from), { attempts: 2, pauseMs: 1 }),
      );
      const error = await mailer.send(mail, never).catch((it: unknown) => it);
      expect(String(error), at).toContain(answer.slice(0, 3));
      expect(isRefused(error), at).toBe(isFinal);
    }
  });

  it('takes a mail out of the queue when its sender waits no more', async () => {
    const gate = Promise.withResolvers<void>();
    const asked: string[] = [];
    const mailer = stack.use(
      open(
        ({ to }) => {
          asked.push(to);
          return gate.promise;
        },
        { atOnce: 1 },
      ),
    );
    const first = mailer.send(mail, never);
    const stop = new AbortController();
    const second = expect(mailer.send({ ...mail, to: 'late@example.test' }, stop.signal)).rejects.toThrow('too late');
    stop.abort(new Error('too late'));
    await second;
    gate.resolve();
    await first;
    expect(asked).toEqual([mail.to]);
  });

  it('counts each outcome from the beginning, so that the first one is an increase', async () => {
    const registry = new Registry();
    stack.use(
      new Mailer({
        delivery: async () => undefined,
        clock: systemClock,
        id: () => 'id',
        log: pino({ level: 'silent' }),
        registry,
      }),
    );
    expect(await registry.metrics()).toContain('setpoint_mails_total{outcome="failed"} 0');
  });

  it('drops what is one too many, and says so', async () => {
    const gate = Promise.withResolvers<void>();
    const mailer = stack.use(open(() => gate.promise, { waiting: 3, atOnce: 1 }));
    const sent = Array.from({ length: 4 }, () => mailer.send(mail, never));
    await expect(mailer.send(mail, never)).rejects.toThrow('Cannot send mail as 3 wait already');
    expect(lines.join()).toContain('A mail is not sent: see why');
    gate.resolve();
    await Promise.all(sent);
  });

  it('sends what waits when it is closed, and takes nothing new', async () => {
    const done: string[] = [];
    const mailer = open(async ({ to }) => void done.push(to), { atOnce: 1 });
    const sent = ['a@x.test', 'b@x.test', 'c@x.test'].map((to) => mailer.send({ ...mail, to }, never));
    await mailer[Symbol.asyncDispose]();
    await Promise.all(sent);
    expect(done).toEqual(['a@x.test', 'b@x.test', 'c@x.test']);
    await expect(mailer.send(mail, never)).rejects.toThrow('this replica is closing');
  });

  it('does not wait for a dead server when it is closed', async () => {
    const silent = await talkingServer(() => undefined, '');
    const mailer = open(deliverBySmtp(parseSmtpUrl(`smtp://${silent}`)!, from), { drainMs: 20 });
    const sent = expect(mailer.send(mail, never)).rejects.toThrow('this replica is closing');
    await mailer[Symbol.asyncDispose]();
    await sent;
  });

  it('ends a mail whose sender does not wait for it any more', async () => {
    const silent = await talkingServer(() => undefined, '');
    const mailer = stack.use(open(deliverBySmtp(parseSmtpUrl(`smtp://${silent}`)!, from)));
    const stop = new AbortController();
    const sent = expect(mailer.send(mail, stop.signal)).rejects.toThrow('stop it');
    stop.abort(new Error('stop it'));
    await sent;
  });

  it('logs the whole mail where there is no server', async () => {
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
    const mailer = stack.use(open(deliverToLog(log)));
    await mailer.send(mail, never);
    expect(lines.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({ level: 40, to: mail.to, text: mail.text }),
    );
  });
});

describe('the address of a mail server', () => {
  it.each([
    ['smtp://mail.test', { host: 'mail.test', port: 587, secure: false }],
    ['smtps://mail.test', { host: 'mail.test', port: 465, secure: true }],
    ['smtp://[::1]:25', { host: '::1', port: 25, secure: false }],
    [
      'smtp://a%40b:p%2Fq@m.test:2525/',
      { host: 'm.test', port: 2525, secure: false, auth: { user: 'a@b', pass: 'p/q' } },
    ],
  ])('is read from %s', (text, server) => {
    expect(parseSmtpUrl(text)).toEqual(server);
  });

  it.each([
    '',
    'mail.test',
    'http://mail.test',
    'smtp://',
    'smtp://m.test/path',
    'smtp://m.test?tls=no',
    'smtp://a%zz@m.test',
  ])('is not %s', (text) => {
    expect(parseSmtpUrl(text)).toBeUndefined();
  });
});
