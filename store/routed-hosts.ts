import type { DeepReadonly } from './deep-readonly.ts';
import type { TenantView } from './mirror.ts';
import { enabledIngress } from './kinds/server-ingress.ts';
import type { ServerIngress } from './kinds/server-ingress.ts';

interface App {
  readonly internal_id: string;
  readonly app_type: string;
  readonly config: { readonly exposed_port?: number | undefined };
  readonly domains: readonly {
    readonly host: string;
    readonly path: string;
    readonly tls: 'on' | 'off' | 'internal';
  }[];
}
interface Server {
  readonly ingress?: DeepReadonly<ServerIngress> | undefined;
}

/** The name that an application has without a word, below the wildcard domain of its server. */
export function generatedHost(app: App, server: Server): string | undefined {
  const domain = enabledIngress(server)?.wildcard_domain;
  if (domain === undefined || app.app_type === 'worker' || app.config.exposed_port === undefined) return undefined;
  return `${app.internal_id}.${domain}`;
}

/** Whether the host is that domain or below it. */
export function isBelow(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`);
}

/** An application that is there or is about to be made. */
interface Holder {
  id: string | undefined;
  projectId: string;
  serverId: string;
}

/**
 * The first of the hosts that an application of another project has on the server. Paths of a host share its visitors and
 * their cookies, so that a host belongs to the project that has it first. What the application has already stays.
 */
export function hostOfOthers(
  view: TenantView,
  { id, projectId, serverId }: Holder,
  hosts: readonly string[],
): string | undefined {
  const all = view.by('application', 'server', serverId);
  const own = all.find(({ meta }) => meta.id === id)?.desired.domains ?? [];
  const others = all.filter(({ desired }) => desired.project_id !== projectId);
  return hosts.find(
    (host) =>
      own.every((one) => one.host !== host) &&
      others.some(({ desired }) => desired.domains.some((one) => one.host === host)),
  );
}

/** The addresses by which an application is reached. */
export function urlsOf(app: App, server: Server | undefined): string[] {
  const ingress = enabledIngress(server);
  if (server === undefined || ingress === undefined) return [];
  const generated = generatedHost(app, server);
  const own = app.domains.map(({ host, path, tls }) => urlOf(ingress, { host, path, tls }));
  return [...(generated === undefined ? [] : [urlOf(ingress, { host: generated, path: '/', tls: 'on' })]), ...own];
}

function urlOf(
  { http_port, https_port }: DeepReadonly<ServerIngress>,
  { host, path, tls }: { host: string; path: string; tls: string },
): string {
  const [scheme, port, usual] = tls === 'off' ? ['http', http_port, 80] : ['https', https_port, 443];
  return `${scheme}://${host}${port === usual ? '' : `:${port}`}${path}`;
}
