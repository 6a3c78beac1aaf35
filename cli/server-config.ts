import { isIPv4 } from 'node:net';
import { z } from 'zod';
import { FunctionRuntime } from '../store/kinds/function.ts';
import { DatabaseType } from '../store/kinds/database.ts';
import { fileURLToPath } from 'node:url';
import { taskTypes } from '../agent-protocol/task-types.ts';
import { HostName } from '../api/resources/domain.ts';
import { parseSmtpUrl } from '../controllers/mail/smtp.ts';
import { embeddedStore } from './data-dir.ts';

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

/** The value is not in the message, since it may contain a password. */
const SmtpUrl = z.string().transform((text, ctx) => {
  const server = parseSmtpUrl(text);
  if (server !== undefined) return server;
  ctx.addIssue('must be smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…, with special characters percent-encoded');
  return z.NEVER;
});

const Rate = z.string().transform((text, ctx) => {
  const [, perMinute, burst] = /^(\d{1,7})(?:,(\d{1,7}))?$/.exec(text) ?? [];
  const rate = { perMinute: Number(perMinute), burst: Number(burst ?? perMinute) };
  if (perMinute !== undefined && (rate.burst > 0 || rate.perMinute === 0)) return { ...rate, burst: rate.burst || 1 };
  ctx.addIssue(`must be PER_MINUTE or PER_MINUTE,AT_ONCE, such as 6000,1000, or 0 for no limit: got ${text}`);
  return z.NEVER;
});

const List = z.string().transform((text) =>
  text
    .split(',')
    .map((it) => it.trim())
    .filter((it) => it !== ''),
);

const Networks = List.superRefine((ranges, ctx) => {
  for (const range of ranges)
    if (!z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]).safeParse(range).success)
      ctx.addIssue({ code: 'custom', message: `must be addresses or CIDR ranges, such as 10.0.0.0/8: got ${range}` });
});

const Seconds = z.coerce.number().int().min(1).max(86_400);

type EtcdFlag = 'etcdCa' | 'etcdCert' | 'etcdKey' | 'etcdUser' | 'etcdPasswordFile';

/** `NAME=IMAGE`, with commas between; `form` says in the message what a name is. */
function imagesBy<T extends string>(names: z.ZodType<T> & { readonly options: readonly T[] }, form: string) {
  return List.transform((pairs, ctx) => {
    const images: Partial<Record<T, string>> = {};
    for (const pair of pairs) {
      const at = pair.indexOf('=');
      const name = names.safeParse(pair.slice(0, Math.max(0, at)));
      if (name.success && at < pair.length - 1) images[name.data] = pair.slice(at + 1);
      else ctx.addIssue({ code: 'custom', message: `must be ${form} of ${names.options.join(', ')}` });
    }
    return images;
  });
}

const EngineImages = imagesBy(DatabaseType, 'TYPE=IMAGE, with a type');
const RuntimeImages = imagesBy(FunctionRuntime, 'RUNTIME=IMAGE, with a runtime');

/** The configuration of the control plane. Each setting is a flag and a variable `SETPOINT_…` of the environment. */
export const ServerConfig = z
  .object({
    listen: HostPort.default({ host: '127.0.0.1', port: 7070 }),
    data: z.string().default('/var/lib/setpoint/server'),
    /** Default: the embedded store in the data directory. */
    store: z
      .string()
      .regex(/^(sqlite:.+|etcd:\/\/.+)$/, 'must be sqlite:PATH or etcd://HOST:PORT,HOST:PORT')
      .optional(),
    /** Files in PEM: the authority of etcd's certificates, and the certificate of this replica with its key. */
    etcdCa: z.string().optional(),
    etcdCert: z.string().optional(),
    etcdKey: z.string().optional(),
    etcdUser: z.string().min(1).optional(),
    /** A file, since every user of the machine can see a flag. */
    etcdPasswordFile: z.string().optional(),
    /** The value of etcd's --quota-backend-bytes; default: etcd's own default, 2 GiB. */
    etcdQuotaBytes: z.coerce.number().int().min(1).optional(),
    /** URL under which users and agents reach this installation; default: the address that it listens on. */
    publicUrl: z
      .url()
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    /** Whether agents on other machines may reach the public URL without TLS. */
    allowPlainHttp: z.union([z.boolean(), z.stringbool()]).default(false),
    /** URL under which the other replicas reach this one; default: the address that it listens on. */
    internalUrl: z.url().optional(),
    /** Folder with the release of the agent that machines get from here; default: where `make release` puts it. */
    agentRelease: z.string().default(fileURLToPath(new URL('../dist', import.meta.url))),
    logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
    /** Host names that are answered, besides that of the public URL; `*`: all. */
    allowedHosts: List.optional(),
    /** Networks from which the metrics may be read; default: this machine. */
    metricsFrom: Networks.optional(),
    trustedProxies: Networks.default([]),
    /** Networks to which servers may be logged in to by SSH although only this machine reaches them: 127.0.0.0/8. */
    sshNetworks: Networks.default([]),
    smtpUrl: SmtpUrl.optional(),
    /** Sender of mail. */
    mailFrom: z.email().optional(),
    /**
     * What the first user of a tenant must present; `auto`: a generated token, unless the server listens on loopback
     * only.
     */
    setupToken: z
      .string()
      .refine((it) => it === 'auto' || it === 'off' || it.length >= 16, 'must be auto, off, or at least 16 characters')
      .default('auto'),
    /** Age in days after which the key that signs tokens is replaced. */
    signingKeyDays: z.coerce.number().int().min(1).max(3650).default(90),
    /** The image of Caddy that the proxies of servers run. */
    ingressImage: z.string().min(1).optional(),
    /** The image of PgBouncer that databases with connection_pooling run beside them. */
    poolerImage: z.string().min(1).optional(),
    /** Images of database engines by type, in place of the official ones. */
    engineImages: EngineImages.optional(),
    /** Images that functions are built upon by runtime, in place of the official ones. */
    runtimeImages: RuntimeImages.optional(),
    /** A domain below which each server with an ingress gets one of its own. */
    wildcardDomain: HostName.optional(),
    buildDeadlineSeconds: Seconds.default(taskTypes.build.deadlineSeconds),
    rolloutDeadlineSeconds: Seconds.default(10 * 60),
    /** Requests of one caller in a minute, and how many of them may come at once; 0 switches the limit off. */
    rateLimit: Rate.default({ perMinute: 6000, burst: 1000 }),
    /** Rate of the expensive requests. */
    heavyRateLimit: Rate.default({ perMinute: 300, burst: 100 }),
    /** Login codes that one client address may ask for. */
    codeRateLimit: Rate.default({ perMinute: 1, burst: 30 }),
    /** Most open streams of one user; 0: no limit. */
    streamsPerUser: z.coerce.number().int().min(0).max(100_000).default(200),
    auditRetentionDays: z.coerce.number().int().min(1).max(3650).default(90),
  })
  .refine((it) => it.smtpUrl === undefined || it.mailFrom !== undefined, {
    path: ['mailFrom'],
    message: 'is needed with --smtp-url',
  })
  .superRefine((it, ctx) => {
    const needs = (flag: EtcdFlag, needed: EtcdFlag): void => {
      if (it[flag] === undefined || it[needed] !== undefined) return;
      const name = flag.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      ctx.addIssue({ code: 'custom', path: [needed], message: `is needed with --${name}` });
    };
    needs('etcdCert', 'etcdKey');
    needs('etcdKey', 'etcdCert');
    needs('etcdCert', 'etcdCa');
    needs('etcdUser', 'etcdPasswordFile');
    needs('etcdPasswordFile', 'etcdUser');
    // the password is sent to etcd, so that the connection must be encrypted
    needs('etcdUser', 'etcdCa');
    if (it.etcdCa !== undefined && it.store?.startsWith('etcd://') !== true)
      ctx.addIssue({ code: 'custom', path: ['store'], message: 'must be etcd://HOST:PORT,HOST:PORT with --etcd-ca' });
  })
  .transform((it) => {
    const { host, port } = it.listen;
    const shown = host.includes(':') ? `[${host}]` : host;
    const address = `http://${shown === '0.0.0.0' || shown === '[::]' ? '127.0.0.1' : shown}:${port}`;
    const { smtpUrl, mailFrom, setupToken, ...rest } = it;
    return {
      ...rest,
      setupToken: setupTokenOf(setupToken, host),
      allowedHosts: allowedHostsOf(it),
      ...(smtpUrl !== undefined && mailFrom !== undefined && { mail: { server: smtpUrl, from: mailFrom } }),
      store: it.store ?? embeddedStore(it.data),
      publicUrl: it.publicUrl ?? address,
      internalUrl: it.internalUrl ?? address,
    };
  });
export type ServerConfig = z.output<typeof ServerConfig>;

/** Absent if no public name of the installation is known: then every name is answered. */
function allowedHostsOf(it: {
  allowedHosts?: string[] | undefined;
  publicUrl?: string | undefined;
  internalUrl?: string | undefined;
}): string[] | undefined {
  if (it.allowedHosts === undefined && it.publicUrl === undefined) return undefined;
  const urls = [it.publicUrl, it.internalUrl].filter((url) => url !== undefined);
  return [...(it.allowedHosts ?? []), ...urls.map((url) => new URL(url).hostname)];
}

/** The setup token in the form of `ApiConfig`. */
function setupTokenOf(setting: string, host: string): { value: string } | { own: true } | undefined {
  if (setting === 'off') return undefined;
  if (setting !== 'auto') return { value: setting };
  const isLoopback = host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
  return isLoopback ? undefined : { own: true };
}
