import { isIP } from 'node:net';
import { addressesOf } from '../../network/addresses-of.ts';
import { reachOf } from '../../network/address.ts';
import { hostOf, isListed, isSibling, placeOfRegistry } from '../../network/registry-hosts.ts';
import { askRegistry } from '../../network/registry-request.ts';
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
      const { host, port } = hostOf(placeOfRegistry(registry));
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
      const url = new URL(
        `${protocol}://${isIP(host) === 6 ? `[${host}]` : host}${port === undefined ? '' : `:${port}`}`,
      );
      const { status, challenge = '' } = await askRegistry({ url, address }, '/v2/', {}, signal);
      return status === 401 ? /^bearer\s.*?realm="?([^",]*)/i.exec(challenge)?.[1] : undefined;
    } catch {
      signal.throwIfAborted();
    }
  }
  return undefined;
}
