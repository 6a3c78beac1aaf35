import { request as requestTls } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { request as requestPlain } from '../../agent-protocol/node-http.ts';
import { addressesOf } from '../../network/addresses-of.ts';
import { reachOf } from '../../network/address.ts';
import { notAllowed } from '../runtime/image-reference.ts';

/** Checks a registry before the engine connects to it, because the engine has no such check. */
export interface RegistryGuard {
  /**
   * @param registry `HOST` or `HOST:PORT`
   * @throws RuntimeFailure `image_not_allowed` if the tenant does not allow the registry, if it is on this machine or
   * in a private network and the list does not name it, or if its tokens come from another host
   */
  check(registry: string, signal: AbortSignal): Promise<void>;
}

/** Allows every registry, for engines that never connect to one. */
export const openRegistries: RegistryGuard = { check: () => Promise.resolve() };

/** The real hosts of registries that are known by another name. */
const aliases: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };
const probeMs = 10_000;

/**
 * @param allowed the registries that the tenant allows: `HOST`, `HOST:PORT` or `*.HOST`; `undefined`: the control plane
 * has no such list, and every public registry is allowed
 */
export function registryGuard(allowed: () => readonly string[] | undefined): RegistryGuard {
  return {
    async check(registry, signal) {
      const list = allowed();
      if (list !== undefined && !isListed(list, registry))
        throw notAllowed(
          `Images of registry ${registry} are not allowed: a superadmin can allow it in the settings of the tenant`,
        );
      const isNamed = list?.includes(registry) === true;
      const { host, port } = hostOf(aliases[registry] ?? registry);
      const address = await judged(host, isNamed, `Registry ${registry}`, signal);
      // If the registry does not answer, the engine gets no image from it either.
      const realm = address && (await tokenRealm(host, port, address, signal));
      if (realm === undefined) return;
      await judgeRealm(registry, host, realm, { isNamed, list: list ?? [] }, signal);
    },
  };
}

async function judgeRealm(
  registry: string,
  host: string,
  realm: string,
  { isNamed, list }: { isNamed: boolean; list: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const url = URL.canParse(realm) ? new URL(realm) : undefined;
  const foreign = `Registry ${registry} sends to another host for its tokens, which is not allowed`;
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw notAllowed(foreign);
  const at = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (at !== host && !isSibling(host, at) && !isListed(list, url.host.toLowerCase())) throw notAllowed(foreign);
  if (url.protocol === 'http:' && !isNamed) throw notAllowed(`Registry ${registry} asks for its tokens without TLS`);
  // A registry that an administrator named may have its tokens on another port of the same host.
  await judged(
    at,
    (isNamed && at === host) || list.includes(url.host.toLowerCase()),
    `The token server of registry ${registry}`,
    signal,
  );
}

/**
 * True for names of one domain, as `auth.example.com` and `registry.example.com`. False for addresses and bare names.
 */
function isSibling(host: string, other: string): boolean {
  const [a, b] = [host, other].map((name) => (isIP(name) === 0 ? name.split('.').slice(-2).join('.') : ''));
  return a === b && a !== undefined && a.includes('.');
}

/**
 * Returns an address of the host; `undefined` if it has none.
 * @throws RuntimeFailure `image_not_allowed` if the host is not public and not named
 */
async function judged(host: string, isNamed: boolean, what: string, signal: AbortSignal): Promise<string | undefined> {
  const addresses = await addressesOf(host, signal).catch(() => []);
  signal.throwIfAborted();
  if (
    !isNamed &&
    (isIP(host) !== 0 ||
      host === 'localhost' ||
      !host.includes('.') ||
      addresses.some((it) => reachOf(it) !== 'public'))
  )
    throw notAllowed(
      `${what} is on this machine or in a private network: an administrator must name it in the settings`,
    );
  return addresses[0];
}

/** Returns the URL of the token server that a registry names; `undefined` if it names none or does not answer. */
async function tokenRealm(
  host: string,
  port: number | undefined,
  address: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const protocol of reachOf(address) === 'own' ? (['https', 'http'] as const) : (['https'] as const)) {
    try {
      const challenge = await ask(protocol, host, port ?? (protocol === 'https' ? 443 : 80), address, signal);
      return challenge === undefined ? undefined : /^bearer\s.*?realm="?([^",]*)/i.exec(challenge)?.[1];
    } catch {
      signal.throwIfAborted();
    }
  }
  return undefined;
}

/** Requests `/v2/` from exactly that address and returns the challenge of a 401. Does not read the body. */
function ask(
  protocol: 'http' | 'https',
  host: string,
  port: number,
  address: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const family = isIP(address);
  const pinned: LookupFunction = (_name, options, found) => {
    if (options.all === true) found(null, [{ address, family }]);
    else found(null, address, family);
  };
  const send = protocol === 'https' ? requestTls : requestPlain;
  return new Promise((resolve, reject) => {
    const outgoing = send({
      host,
      port,
      path: '/v2/',
      lookup: pinned,
      agent: false,
      headers: { host: port === (protocol === 'https' ? 443 : 80) ? host : `${host}:${port}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(probeMs)]),
    });
    outgoing.on('error', reject);
    outgoing.on('response', (answer) => {
      answer.destroy();
      const challenge = answer.headers['www-authenticate'];
      resolve(answer.statusCode === 401 ? challenge : undefined);
    });
    outgoing.end();
  });
}

/** True if the list has the registry by name, or by a pattern `*.HOST`. */
export function isListed(list: readonly string[], registry: string): boolean {
  return list.some(
    (one) =>
      one === registry ||
      (one.startsWith('*.') && isIP(hostOf(registry).host) === 0 && registry.endsWith(one.slice(1))),
  );
}

function hostOf(registry: string): { host: string; port: number | undefined } {
  const match = /^(?:\[(?<six>.*)\]|(?<name>[^:]*))(?::(?<port>\d+))?$/.exec(registry);
  const port = match?.groups?.['port'];
  return {
    host: match?.groups?.['six'] ?? match?.groups?.['name'] ?? registry,
    port: port === undefined ? undefined : Number(port),
  };
}
