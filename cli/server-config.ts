import { join } from 'node:path';
import { z } from 'zod';

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
    buildDeadlineSeconds: Seconds.default(30 * 60),
    rolloutDeadlineSeconds: Seconds.default(10 * 60),
  })
  .transform((it) => {
    const { host, port } = it.listen;
    const shown = host.includes(':') ? `[${host}]` : host;
    const address = `http://${shown === '0.0.0.0' || shown === '[::]' ? '127.0.0.1' : shown}:${port}`;
    return {
      ...it,
      store: it.store ?? `sqlite:${join(it.data, 'store.db')}`,
      publicUrl: it.publicUrl ?? address,
      internalUrl: it.internalUrl ?? address,
    };
  });
export type ServerConfig = z.output<typeof ServerConfig>;
