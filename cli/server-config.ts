import { join } from 'node:path';
import { z } from 'zod';
import { parseSmtpUrl } from '../controllers/mail/smtp.ts';

const HostPort = z.string().transform((text, ctx) => {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port > 65535) {
    ctx.addIssue(`must be HOST:PORT, such as 127.0.0.1:7070: got ${text}`);
    return z.NEVER;
  }
  return { host, port };
});

/** The value stays out of the message: it may hold a password. */
const SmtpUrl = z.string().transform((text, ctx) => {
  const server = parseSmtpUrl(text);
  if (server !== undefined) return server;
  ctx.addIssue('must be smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…, with special characters percent-encoded');
  return z.NEVER;
});

const Seconds = z.coerce.number().int().min(1).max(86_400);

/** Everything that the control plane can be told. Each is a flag, and `SETPOINT_…` in the environment. */
export const ServerConfig = z
  .object({
    listen: HostPort.default({ host: '127.0.0.1', port: 7070 }),
    data: z.string().default('/var/lib/setpoint/server'),
    /** Default: the embedded store in the data directory. */
    store: z
      .string()
      .regex(/^(sqlite:.+|etcd:\/\/.+)$/, 'must be sqlite:PATH or etcd://HOST:PORT,HOST:PORT')
      .optional(),
    /** Where users and agents reach this installation; default: the address it listens on. */
    publicUrl: z.url().optional(),
    /** Where the other replicas reach this one; default: the address it listens on. */
    internalUrl: z.url().optional(),
    logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
    trustedProxies: z
      .string()
      .transform((text) => text.split(',').filter((it) => it !== ''))
      .default([]),
    smtpUrl: SmtpUrl.optional(),
    /** Sender of mail. */
    mailFrom: z.email().optional(),
    buildDeadlineSeconds: Seconds.default(30 * 60),
    rolloutDeadlineSeconds: Seconds.default(10 * 60),
  })
  .refine((it) => it.smtpUrl === undefined || it.mailFrom !== undefined, {
    path: ['mailFrom'],
    message: 'is needed with --smtp-url',
  })
  .transform((it) => {
    const { host, port } = it.listen;
    const shown = host.includes(':') ? `[${host}]` : host;
    const address = `http://${shown === '0.0.0.0' || shown === '[::]' ? '127.0.0.1' : shown}:${port}`;
    const { smtpUrl, mailFrom, ...rest } = it;
    return {
      ...rest,
      ...(smtpUrl !== undefined && mailFrom !== undefined && { mail: { server: smtpUrl, from: mailFrom } }),
      store: it.store ?? `sqlite:${join(it.data, 'store.db')}`,
      publicUrl: it.publicUrl ?? address,
      internalUrl: it.internalUrl ?? address,
    };
  });
export type ServerConfig = z.output<typeof ServerConfig>;
