import { isIP } from 'node:net';
import type { IncomingMessage } from 'node:http';

/**
 * Whether a request is for one of these host names, on any port. An attacker can make a name of their own point here: a
 * page under that name would otherwise reach this installation through a user's browser. Addresses and `localhost` are
 * always known, since no such page can have them as its own name. `*` among the names, or no list, allows every name.
 */
export function isKnownHost(names: readonly string[] | undefined, request: IncomingMessage): boolean {
  if (names === undefined || names.includes('*')) return true;
  const [host, ...more] = request.headersDistinct['host'] ?? [];
  if (host === undefined || more.length > 0) return false;
  const name = hostName(host);
  if (name === undefined) return false;
  return isIP(name) !== 0 || name === 'localhost' || names.some((it) => it.toLowerCase() === name);
}

/** The host without port and brackets, in lower case and without a trailing dot; `undefined` if it is not a host. */
function hostName(host: string): string | undefined {
  const [, bracketed, plain] = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@[\]]+))(?::\d{1,5})?$/.exec(host) ?? [];
  return (bracketed ?? plain)?.toLowerCase().replace(/\.$/, '');
}
