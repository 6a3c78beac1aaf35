import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/**
 * Finds out which client a request comes from: the peer, or behind trusted proxies the right-most address that is not
 * one of them. IPv6 counts by /64, since one client has that many. @throws TypeError for a range that is none.
 */
export function createClientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trusted = new BlockList();
  for (const range of trustedProxies) add(trusted, range);
  const isTrusted = (address: string): boolean => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

  return (request) => {
    let address = plain(request.socket.remoteAddress ?? '');
    if (trustedProxies.length === 0) return isIP(address) === 6 ? network64(address) : address;
    const forwarded = request.headers['x-forwarded-for'];
    const hops = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? '')).split(',').reverse();
    for (const hop of hops) {
      if (isIP(address) === 0 || !isTrusted(address)) break;
      const next = plain(hop.trim());
      if (isIP(next) === 0) break;
      address = next;
    }
    return isIP(address) === 6 ? network64(address) : address;
  };
}

function add(list: BlockList, range: string): void {
  const [address = '', bits] = range.split('/');
  const version = isIP(address);
  if (version === 0) throw new TypeError(`Trusted proxy must be an address or a CIDR range: got ${range}`);
  const type = version === 6 ? 'ipv6' : 'ipv4';
  if (bits === undefined) list.addAddress(address, type);
  else list.addSubnet(address, Number(bits), type);
}

/** An IPv4 client of a socket that listens on IPv6 looks like `::ffff:192.0.2.1`. */
function plain(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

function network64(address: string): string {
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}
