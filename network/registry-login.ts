import { isIP } from 'node:net';
import { reachOf } from './address.ts';
import { addressesOf } from './addresses-of.ts';
import { isListed, isSibling, placeOfRegistry } from './registry-hosts.ts';
import { askRegistry, type Answer, type Origin } from './registry-request.ts';

interface Login {
  address: string;
  username: string;
  password: string;
  allowed: readonly string[];
}
interface Result {
  failure: 'wrong_credentials' | 'unreachable' | 'not_allowed' | undefined;
  message: string;
}

/**
 * Logs in to a registry as a container engine does: by HTTP Basic, or by a token of the server that the registry names. A
 * private address is asked only if `allowed` names it in full, a token server only on the registry's own domain, and no
 * redirect is followed. Plain HTTP is for this machine alone, as with engines.
 *
 * @throws the signal's reason
 */
export async function logInToRegistry(
  { address, username, password, allowed }: Login,
  signal: AbortSignal,
): Promise<Result> {
  const host = placeOfRegistry(address);
  if (!isListed(allowed, address))
    return refused(
      `Images of registry ${address} are not allowed: a superadmin can allow it in the settings of the tenant`,
    );
  const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const isNamed = allowed.includes(address);
  try {
    const base = await originOf(host, isNamed, signal);
    if (base === undefined)
      return refused(
        `Registry ${address} is on this machine or in a private network: a superadmin must name it in the settings`,
      );
    const first = await askRegistry(base, '/v2/', {}, signal);
    const challenge = first.status === 401 ? first.challenge : undefined;
    if (challenge === undefined)
      return first.status === 200
        ? { failure: undefined, message: `Registry ${address} asks for no login` }
        : unreachable(address, `it answered ${first.status} where a registry answers 200 or 401`);
    const realm = /^bearer\s.*?realm="?([^",]*)/i.exec(challenge)?.[1];
    const answer =
      realm === undefined
        ? await askRegistry(base, '/v2/', { authorization: basic }, signal)
        : await askToken({ realm, challenge, basic, host, isNamed }, signal);
    if (answer === undefined)
      return refused(`Registry ${address} sends to another host for its tokens, which is not allowed`);
    if (answer.status === 200) return { failure: undefined, message: `The login to registry ${address} succeeded` };
    if (answer.status === 401 || answer.status === 403)
      return {
        failure: 'wrong_credentials',
        message: `Registry ${address} refuses this user name and password: compare them with those of the registry, or make a new token there`,
      };
    return unreachable(address, `it answered the login with ${answer.status}`);
  } catch (error) {
    signal.throwIfAborted();
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer in time';
    return unreachable(address, /^[A-Z_]+$/.test(code) ? code : 'no answer in time');
  }
}

function refused(message: string): Result {
  return { failure: 'not_allowed', message };
}

function unreachable(address: string, why: string): Result {
  const message = `Registry ${address} cannot be logged in to from the control plane (${why}): check its address, its certificate, and that it runs`;
  return { failure: 'unreachable', message };
}

/** `undefined` if the host is not public and not named. */
async function originOf(host: string, isNamed: boolean, signal: AbortSignal): Promise<Origin | undefined> {
  const { hostname } = new URL(`https://${host}`);
  const addresses = await addressesOf(hostname, signal);
  if (!isNamed && (isIP(hostname) !== 0 || addresses.some((it) => reachOf(it) !== 'public'))) return undefined;
  const [address] = addresses;
  if (address === undefined) throw new Error('It has no address');
  const secure = { url: new URL(`https://${host}`), address };
  if (reachOf(address) !== 'own') return secure;
  return askRegistry(secure, '/v2/', {}, signal).then(
    () => secure,
    () => {
      signal.throwIfAborted();
      return { url: new URL(`http://${host}`), address };
    },
  );
}

/** Asks the token server; `undefined` if it is not the registry's own. */
async function askToken(
  {
    realm,
    challenge,
    basic,
    host,
    isNamed,
  }: Record<'realm' | 'challenge' | 'basic' | 'host', string> & { isNamed: boolean },
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const url = URL.canParse(realm) ? new URL(realm) : undefined;
  const own = new URL(`https://${host}`).hostname;
  if (url === undefined || (url.protocol !== 'https:' && !(isNamed && url.protocol === 'http:'))) return undefined;
  if (url.hostname !== own && !isSibling(own, url.hostname)) return undefined;
  const addresses = await addressesOf(url.hostname, signal);
  const isOwn = isNamed && url.hostname === own;
  if (!isOwn && addresses.some((it) => reachOf(it) !== 'public')) return undefined;
  const [address] = addresses;
  if (address === undefined) return undefined;
  const service = /service="([^"]*)"/i.exec(challenge)?.[1];
  if (service !== undefined) url.searchParams.set('service', service);
  return askRegistry(
    { url: new URL(url.origin), address },
    `${url.pathname}${url.search}`,
    { authorization: basic },
    signal,
  );
}
