import { z } from 'zod';
import { Port } from './fields.ts';

/** Most domains of one application. */
export const maxDomains = 20;

/** A host name, or a path of it, that leads to an application. */
export const Domain = z.object({
  /** Lower-case, in ASCII, without a port. */
  host: z.string(),
  /** Begins with a slash, and ends with none unless it is all. */
  path: z.string().default('/'),
  /** Which service of the application; absent: the only one. */
  service: z.string().optional(),
  /** Where its instances listen; absent: their first port. */
  port: Port.optional(),
  tls: z.enum(['on', 'off', 'internal']).default('on'),
  redirect_to: z.string().optional(),
  /** Hashes are PHC strings of argon2id. */
  basic_auth: z
    .array(z.object({ username: z.string(), password_hash: z.string() }))
    .max(20)
    .default([]),
  headers: z
    .object({ set: z.record(z.string(), z.string()).default({}), remove: z.array(z.string()).default([]) })
    .default({ set: {}, remove: [] }),
  max_body_bytes: z.int().optional(),
  timeout_seconds: z.int().optional(),
});
export type Domain = z.infer<typeof Domain>;

/** What makes two domains of a server the same. */
export function domainName({ host, path }: Pick<Domain, 'host' | 'path'>): string {
  return `${host}${path}`;
}
