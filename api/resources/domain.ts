import { domainToASCII } from 'node:url';
import { z } from 'zod';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { maxDomains } from '../../store/kinds/domain.ts';
import type { Domain as Stored } from '../../store/kinds/domain.ts';
import { Port } from '../../store/kinds/fields.ts';
import { Line } from './fields.ts';

const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A host name as the proxy compares it: lower-case, in ASCII. It has a dot, and is no address. */
export const HostName = z
  .string()
  .min(1)
  .max(253)
  .transform((text, ctx) => {
    const host = /[\s/:@?#[\]\\%*]/.test(text) ? '' : domainToASCII(text).toLowerCase().replace(/\.$/, '');
    const labels = host.split('.');
    const isName = labels.length > 1 && labels.every((one) => label.test(one)) && !/^\d+$/.test(labels.at(-1) ?? '');
    if (isName && host.length <= 253) return host;
    ctx.addIssue('Must be a host name such as www.example.org, without a scheme, a port or a wildcard');
    return z.NEVER;
  });

const Path = z
  .string()
  .max(256)
  .regex(/^\/[A-Za-z0-9._~/-]*$/, 'Must begin with a slash and have only letters, digits and -._~')
  .refine((path) => !/\/\/|(^|\/)\.\.?(\/|$)/.test(path), 'Must have no empty part, . or ..')
  .transform((path) => (path === '/' ? path : path.replace(/\/$/, '')));

/** Braces would stand for values of the proxy itself. */
const Plain = Line.refine((text) => !/[{}]/.test(text), 'Must not contain braces');

const HeaderName = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'Must be the name of a header')
  .refine((name) => !ofTheConnection.has(name.toLowerCase()), 'Must not be a header of the connection itself');
const ofTheConnection = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const RedirectTo = Plain.min(1).max(2048).refine(isWebAddress, 'Must be an http or https address without credentials');

function isWebAddress(text: string): boolean {
  if (/\s/.test(text) || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

const Username = Plain.min(1)
  .max(64)
  .refine((name) => !name.includes(':'), 'Must not contain a colon');

/** A domain as it is sent. */
export const DomainInput = z
  .strictObject({
    host: HostName,
    path: Path.nullish(),
    service: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/, 'Must be the name of a service')
      .nullish(),
    port: Port.nullish(),
    tls: z
      .enum(['on', 'auto', 'off', 'internal'])
      .transform((tls) => (tls === 'auto' ? 'on' : tls))
      .nullish()
      .meta({ description: '`auto` is `on`' }),
    redirect_to: RedirectTo.nullish(),
    basic_auth: z
      .array(
        z.strictObject({
          username: Username,
          password: z
            .string()
            .min(8)
            .max(128)
            .optional()
            .meta({ description: 'Needed for a new user; without it the present one stays' }),
        }),
      )
      .max(20)
      .nullish(),
    headers: z
      .strictObject({
        set: z
          .record(HeaderName, Plain.max(4096))
          .refine((set) => Object.keys(set).length <= 32, 'At most 32')
          .optional(),
        remove: z.array(HeaderName).max(32).optional(),
      })
      .nullish()
      .meta({ description: 'Changes of the headers of answers' }),
    max_body_bytes: z
      .int()
      .min(1)
      .max(2 ** 40)
      .nullish(),
    timeout_seconds: z.int().min(1).max(3600).nullish().meta({ description: 'Until the first byte of an answer' }),
  })
  .meta({ id: 'DomainInput' });
export type DomainInput = z.infer<typeof DomainInput>;

export const Domains = z.array(DomainInput).max(maxDomains);

/** A domain as it is shown: with the names of its users, and no password. */
export const Domain = z
  .object({
    host: z.string(),
    path: z.string(),
    service: z.string().nullable(),
    port: z.int().nullable(),
    tls: z.enum(['on', 'off', 'internal']),
    redirect_to: z.string().nullable(),
    basic_auth: z.array(z.object({ username: z.string() })),
    headers: z.object({ set: z.record(z.string(), z.string()), remove: z.array(z.string()) }),
    max_body_bytes: z.int().nullable(),
    timeout_seconds: z.int().nullable(),
  })
  .meta({ id: 'Domain' });

export function toDomain(it: DeepReadonly<Stored>): z.infer<typeof Domain> {
  return {
    host: it.host,
    path: it.path,
    service: it.service ?? null,
    port: it.port ?? null,
    tls: it.tls,
    redirect_to: it.redirect_to ?? null,
    basic_auth: it.basic_auth.map(({ username }) => ({ username })),
    headers: { set: { ...it.headers.set }, remove: [...it.headers.remove] },
    max_body_bytes: it.max_body_bytes ?? null,
    timeout_seconds: it.timeout_seconds ?? null,
  };
}
