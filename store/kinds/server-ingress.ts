import { z } from 'zod';
import type { DeepReadonly } from '../deep-readonly.ts';
import { Port } from './fields.ts';

/** The proxy of a server, which leads domains to applications. */
export const ServerIngress = z.object({
  enabled: z.boolean(),
  http_port: Port.default(80),
  https_port: Port.default(443),
  /** The directory of the authority that certificates come from; absent: the usual public one. */
  acme_directory: z.string().optional(),
  acme_email: z.string().optional(),
  /** Certificates of that authority's own server, in PEM. */
  acme_ca: z.string().optional(),
  /** Networks of proxies before it, such as `10.0.0.0/8`: what these say of a client in `X-Forwarded-*` is passed on. */
  trusted_proxies: z.array(z.string()).optional(),
  /** Every web application with a port has a name below it. */
  wildcard_domain: z.string().optional(),
});
export type ServerIngress = z.infer<typeof ServerIngress>;

interface Server {
  readonly ingress?: DeepReadonly<ServerIngress> | undefined;
}

/** Its settings while it is enabled. */
export function enabledIngress(server: Server | undefined): DeepReadonly<ServerIngress> | undefined {
  return server?.ingress?.enabled === true ? server.ingress : undefined;
}

/** The ports that the proxy of a server has: no application may take them. */
export function ingressPorts(server: Server): number[] {
  const ingress = enabledIngress(server);
  return ingress === undefined ? [] : [ingress.http_port, ingress.https_port];
}
