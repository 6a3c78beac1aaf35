import { defined } from '../../store/defined.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { Domain, domainName } from '../../store/kinds/domain.ts';
import { internalId } from '../../store/kinds/internal-id.ts';
import type { ServerIngress } from '../../store/kinds/server-ingress.ts';
import type { TenantView } from '../../store/mirror.ts';
import { hostOfOthers, isBelow } from '../../store/routed-hosts.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { DomainInput } from '../resources/domain.ts';
import type { ServerIngressInput } from '../resources/server-ingress.ts';
import { holdPopulation } from './population.ts';

/**
 * Guards, where an application gets a host or another `tls` of one, that no other application does until the commit. What is
 * judged afterwards holds at the commit.
 */
export async function holdHosts(
  ctx: Pick<RequestContext, 'view' | 'fresh'>,
  unit: Unit,
  sent: readonly DomainInput[] | null | undefined,
  { serverId, before = [] }: Pick<Of, 'serverId' | 'before'>,
): Promise<void> {
  const server = ctx.view.get('server', serverId);
  const isPresent = ({ host, tls = 'on' }: DomainInput): boolean =>
    before.some((one) => one.host === host && one.tls === tls);
  if (server === undefined || (sent ?? []).every(isPresent)) return;
  await holdPopulation(ctx, unit, server);
}

interface Of {
  projectId: string;
  /** Of the application; absent: it is about to be created. */
  id?: string;
  serverId: string;
  before?: DeepReadonly<Domain[]>;
}

/**
 * The domains that an application is to have; `undefined`: those of before. Passwords become hashes.
 * @throws ApiError BAD_REQUEST; CONFLICT if another application of the server has one of them, another project has one of
 * their hosts, or one of their hosts is encrypted in another way
 */
export async function domainsFrom(
  ctx: Pick<RequestContext, 'passwords' | 'view' | 'repo'>,
  sent: readonly DomainInput[] | null | undefined,
  of: Of,
): Promise<Domain[] | undefined> {
  if (sent === undefined) return undefined;
  // an ingress that is off gives these names again once it is on
  const wildcard = ctx.view.get('server', of.serverId)?.desired.ingress?.wildcard_domain;
  const seen = new Set<string>();
  const domains: Domain[] = [];
  for (const [index, one] of (sent ?? []).entries()) {
    const domain = await domainFrom(ctx, one, of.before ?? [], `domains.${index}`);
    const field = `domains.${index}.host`;
    const name = domainName(domain);
    if (seen.has(name)) throw badField(field, 'duplicate', `${name} is named twice`);
    seen.add(name);
    if (wildcard !== undefined && isBelow(domain.host, wildcard))
      throw badField(field, 'reserved', `Names below ${wildcard} are those that its server gives to applications`);
    const holder = await ctx.repo.idByName('application', `domains/${of.serverId}`, name);
    if (holder !== undefined && holder !== of.id) {
      const message = `${name} is used: an address of a server leads to one application`;
      throw conflicting(message, [{ field, reason: 'used', message }]);
    }
    domains.push(domain);
    requireHost(ctx.view, domains, { ...of, field: `domains.${index}` });
  }
  return domains;
}

/**
 * Paths of a host share its visitors, their cookies and its certificate: a host belongs to the project that has it first,
 * and is encrypted in one way. What an earlier release took stays. @throws ApiError CONFLICT for the last of the domains
 */
function requireHost(view: TenantView, domains: readonly Domain[], of: Of & { field: string }): void {
  const domain = domains.at(-1);
  if (domain === undefined) return;
  const { host, tls } = domain;
  const before = of.before?.filter((one) => one.host === host) ?? [];
  const others = view
    .by('application', 'server', of.serverId)
    .filter(({ meta, desired }) => meta.id !== of.id && desired.domains.some((one) => one.host === host));
  if (hostOfOthers(view, { id: of.id, projectId: of.projectId, serverId: of.serverId }, [host]) !== undefined) {
    const message = `${host} is used: a host of a server belongs to one project`;
    throw conflicting(message, [{ field: `${of.field}.host`, reason: 'used', message }]);
  }
  if (tls === 'off' || before.some((one) => one.tls === tls)) return;
  const same = [...domains, ...others.flatMap(({ desired }) => desired.domains)].filter((one) => one.host === host);
  const other = same.find((one) => one.tls !== 'off' && one.tls !== tls);
  if (other === undefined) return;
  const message = `${domainName(other)} has tls ${other.tls}: a host has one certificate, so that all its paths need the same`;
  throw conflicting(message, [{ field: `${of.field}.tls`, reason: 'used', message }]);
}

async function domainFrom(
  { passwords }: Pick<RequestContext, 'passwords'>,
  { basic_auth, headers, ...sent }: DomainInput,
  before: DeepReadonly<Domain[]>,
  field: string,
): Promise<Domain> {
  const { path, service, port, tls, redirect_to, max_body_bytes, timeout_seconds } = sent;
  const given = { path, service, port, tls, redirect_to, max_body_bytes, timeout_seconds };
  const fields = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value ?? undefined]));
  const present = before.find((one) => one.host === sent.host && one.path === (path ?? '/'))?.basic_auth ?? [];
  const users: Domain['basic_auth'] = [];
  for (const [index, { username, password }] of (basic_auth ?? []).entries()) {
    const known = present.find((one) => one.username === username)?.password_hash;
    const password_hash = password === undefined ? known : await hashOf(passwords, password, known);
    const at = `${field}.basic_auth.${index}`;
    if (password_hash === undefined) throw badField(`${at}.password`, 'required', `${username} needs a password`);
    if (users.some((one) => one.username === username)) throw badField(at, 'duplicate', `${username} is named twice`);
    users.push({ username, password_hash });
  }
  return Domain.parse(defined({ ...fields, host: sent.host, basic_auth: users, headers: headers ?? undefined }));
}

/** The hash of a password: the known one if it is of that, so that the same domains stay the same. */
async function hashOf(
  passwords: RequestContext['passwords'],
  password: string,
  known: string | undefined,
): Promise<string> {
  if (known !== undefined) {
    const { ok, stale } = await passwords.verify(password, known);
    if (ok && !stale) return known;
  }
  return passwords.hash(password);
}

/** The wildcard domain that a server gets of the installation; `undefined` if that has none. */
export function givenWildcard(
  { config, random }: Pick<RequestContext, 'config' | 'random'>,
  serverName: string,
): string | undefined {
  const domain = config.wildcardDomain;
  return domain && `${internalId(serverName, random.id().slice(0, 6))}.${domain}`;
}

/**
 * The proxy of a server after a change: `null` removes it, what is not sent stays, and one that is new has the `given`
 * wildcard domain unless another one, or `null`, is sent. @throws ApiError BAD_REQUEST; CONFLICT
 * if an application has a name that the wildcard domain would give to another one
 */
export function changedIngress(
  view: TenantView,
  sent: ServerIngressInput | null | undefined,
  { id, before, given }: { id?: string; before?: DeepReadonly<ServerIngress> | undefined; given?: string | undefined },
): ServerIngress | null | undefined {
  if (sent === undefined || sent === null) return sent;
  const entries = Object.entries({ ...(before ?? defined({ wildcard_domain: given })), ...defined(sent) }).filter(
    ([, value]) => value !== null,
  );
  const next: ServerIngress = { enabled: true, http_port: 80, https_port: 443, ...Object.fromEntries(entries) };
  if (next.http_port === next.https_port)
    throw badField('ingress.https_port', 'duplicate', 'http_port and https_port must differ');
  const { wildcard_domain: wildcard } = next;
  if (id === undefined || wildcard === undefined || wildcard === before?.wildcard_domain) return next;
  const taken = view.by('application', 'server', id).flatMap(({ desired }) => desired.domains);
  const below = taken.find(({ host }) => isBelow(host, wildcard));
  if (below === undefined) return next;
  const message = `${below.host} is a domain of an application: names below ${wildcard} could be those of others`;
  throw conflicting(message, [{ field: 'ingress.wildcard_domain', reason: 'used', message }]);
}
