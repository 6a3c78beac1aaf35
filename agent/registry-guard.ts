import { request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { addressesOf } from './addresses-of.ts';
import { reachOf } from './network-address.ts';
import { notAllowed } from './runtime/image-reference.ts';

/** Judges registries before the engine, which guards against nothing, is sent to one. */
export interface RegistryGuard {
  /**
   * @param registry `HOST` or `HOST:PORT`
   * @throws RuntimeFailure `image_not_allowed` for one that the tenant does not allow, that is on this machine or in a
   * private network without being named, or that sends to another host for its tokens
   */
  check(registry: string, signal: AbortSignal): Promise<void>;
}

/** Allows every registry: for engines that reach none. */
export const openRegistries: RegistryGuard = { check: () => Promise.resolve() };

/** Where the default registry really is. */
const aliases: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };
const probeMs = 10_000;

/**
 * @param allowed the registries that the tenant allows: `HOST`, `HOST:PORT`, `*.HOST`; `undefined`: its control plane
 * knows of no such list, and every public one is
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
      // One that does not answer gives the engine nothing either.
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
  // A registry on this machine may give tokens by another port of it; it was named by an administrator.
  await judged(
    at,
    (isNamed && at === host) || list.includes(url.host.toLowerCase()),
    `The token server of registry ${registry}`,
    signal,
  );
}

/** `auth.example.com` for `registry.example.com`; never for addresses, nor for names without a dot. */
function isSibling(host: string, other: string): boolean {
  const [a, b] = [host, other].map((name) => (isIP(name) === 0 ? name.split('.').slice(-2).join('.') : ''));
  return a === b && a !== undefined && a.includes('.');
}

/** @returns an address to ask; `undefined`: the name has none. */
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

/** What a registry says where its tokens are; `undefined`: it asks for none, or does not answer. */
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

/** The challenge of `/v2/`, asked at that very address. Its body is not read. */
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

/** Whether the list has that registry by name, or all below a name of it. */
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
