import { isIPv4 } from 'node:net';
import type { Transporter } from 'nodemailer';
import { DeliveryError } from './mailer.ts';
import type { Delivery } from './mailer.ts';

/** A server that takes mail. */
export interface SmtpServer {
  host: string;
  port: number;
  /** TLS from the first byte; otherwise STARTTLS if the server offers it, except on the machine itself. */
  secure: boolean;
  auth?: { user: string; pass: string };
}

/**
 * The server that `smtp://[USER:PASSWORD@]HOST[:PORT]` names, or `smtps://…` with TLS from the first byte; `undefined`
 * if the text is no such address.
 */
export function parseSmtpUrl(text: string): SmtpServer | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const secure = url.protocol === 'smtps:';
  if ((!secure && url.protocol !== 'smtp:') || url.hostname === '') return undefined;
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') return undefined;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = url.port === '' ? (secure ? 465 : 587) : Number(url.port);
  if (url.username === '') return { host, port, secure };
  try {
    return {
      host,
      port,
      secure,
      auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
    };
  } catch {
    return undefined;
  }
}

/**
 * Delivers by SMTP, one connection per mail. Credentials are sent over TLS only, except to the machine itself, and no
 * error contains them.
 */
export function deliverBySmtp(server: SmtpServer, from: string): Delivery {
  const { host, port, secure, auth } = server;
  const domain = from.slice(from.lastIndexOf('@') + 1);
  // loaded for the first mail: many installations send none
  let opened: Promise<Transporter> | undefined;
  const open = async (): Promise<Transporter> => {
    const { createTransport } = await import('nodemailer');
    return createTransport({
      host,
      port,
      secure,
      // a server on the machine itself seldom has a certificate of its name
      ignoreTLS: !secure && isLoopback(host),
      requireTLS: !secure && auth !== undefined && !isLoopback(host),
      disableFileAccess: true,
      disableUrlAccess: true,
      ...(auth !== undefined && { auth }),
    });
  };
  return async ({ to, subject, text, messageId }, signal) => {
    try {
      const transport = await (opened ??= open());
      await transport.sendMail({
        from: { name: 'Setpoint', address: from },
        // as an object, since a text would be taken for a list of addresses
        to: { name: '', address: to },
        subject,
        text,
        messageId: `<${messageId}@${domain}>`,
        headers: { 'auto-submitted': 'auto-generated' },
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw failure(error, server);
    }
  };
}

/** A new error, since the one of the library may quote what was sent. */
function failure(error: unknown, { host, port, auth }: SmtpServer): DeliveryError {
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'responseCode' in error ? Number(error.responseCode) : 0;
  const command = error instanceof Error && 'command' in error ? String(error.command) : '';
  // what it refuses before is the login or the sender: an operator can change that, and then the same mail is taken
  const isFinal = code >= 500 && code < 600 && (command === 'RCPT TO' || command === 'DATA');
  return new DeliveryError(`Cannot send mail by ${host}:${port}: ${redacted(text, auth).slice(0, 300)}`, isFinal);
}

function redacted(text: string, auth: SmtpServer['auth']): string {
  if (auth === undefined) return text;
  const { user, pass } = auth;
  const plain = [pass, encodeURIComponent(pass), base64(pass), base64(`\0${user}\0${pass}`), base64(user)];
  return plain.filter((secret) => secret !== '').reduce((left, secret) => left.replaceAll(secret, '[redacted]'), text);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}
