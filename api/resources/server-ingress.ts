import { z } from 'zod';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { Port } from '../../store/kinds/fields.ts';
import type { ServerIngress as Stored } from '../../store/kinds/server-ingress.ts';
import { HostName } from './domain.ts';
import { Certificates } from './fields.ts';

const AcmeDirectory = z
  .string()
  .max(2048)
  .refine((text) => URL.canParse(text) && new URL(text).protocol === 'https:' && !/[{}\s]/.test(text), {
    error: 'Must be an https address',
  });
/** Networks and single addresses. One with all addresses would let every client say who it is. */
const TrustedProxies = z
  .array(
    z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
      error: 'Must be an address, or a network such as 10.0.0.0/8',
    }),
  )
  .max(32)
  .refine((all) => all.every((one) => Number(one.split('/')[1] ?? 128) >= 8), {
    error: 'Must be networks of /8 or smaller: of larger ones, most clients could say that they are another one',
  });

/** The proxy of a server as it is sent: only what is sent changes. */
export const ServerIngressInput = z
  .strictObject({
    enabled: z.boolean(),
    http_port: Port,
    https_port: Port,
    acme_directory: AcmeDirectory.nullable().meta({ description: 'Of the authority; null: the usual public one' }),
    acme_email: z.email().max(254).nullable(),
    acme_ca: Certificates.nullable().meta({ description: "Certificates of the authority's own server" }),
    trusted_proxies: TrustedProxies.nullable().meta({
      description: 'Networks of proxies before this one, whose X-Forwarded-* reach the applications; null: none',
    }),
    wildcard_domain: HostName.nullable().meta({
      description: 'A domain all of whose names lead to the server: every web application with a port gets one',
    }),
  })
  .partial()
  .meta({ id: 'ServerIngressInput' });
export type ServerIngressInput = z.infer<typeof ServerIngressInput>;

export const ServerIngress = z
  .object({
    enabled: z.boolean(),
    http_port: z.int(),
    https_port: z.int(),
    acme_directory: z.string().nullable(),
    acme_email: z.string().nullable(),
    acme_ca: z.string().nullable(),
    trusted_proxies: z.array(z.string()),
    wildcard_domain: z.string().nullable(),
  })
  .meta({ id: 'ServerIngress' });

export function toServerIngress(it: DeepReadonly<Stored> | undefined): z.infer<typeof ServerIngress> | null {
  if (it === undefined) return null;
  return {
    enabled: it.enabled,
    http_port: it.http_port,
    https_port: it.https_port,
    acme_directory: it.acme_directory ?? null,
    acme_email: it.acme_email ?? null,
    acme_ca: it.acme_ca ?? null,
    trusted_proxies: [...(it.trusted_proxies ?? [])],
    wildcard_domain: it.wildcard_domain ?? null,
  };
}
