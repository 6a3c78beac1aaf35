import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/**
 * Finds the client that a request comes from, as {@link createExactAddress} does. An IPv6 address is cut to its /64,
 * since one client has that many addresses. @throws TypeError for an invalid range.
 */
export function createClientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const exact = createExactAddress(trustedProxies);
  return (request) => {
    const address = exact(request);
    return isIP(address) === 6 ? network64(address) : address;
  };
}

/**
 * Finds the address that a request comes from: the peer's, or behind trusted proxies the right-most address that is not
 * one of theirs. @throws TypeError for an invalid range.
 */
export function createExactAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const isTrusted = createNetworks(trustedProxies);
  return (request) => {
    let address = peerOf(request);
    if (trustedProxies.length === 0) return address;
    const forwarded = request.headers['x-forwarded-for'];
    const hops = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? '')).split(',').reverse();
    for (const hop of hops) {
      if (!isTrusted(address)) break;
      const next = plain(hop.trim());
      if (isIP(next) === 0) break;
      address = next;
    }
    return address;
  };
}

/** The address of the other end of the connection. */
export function peerOf({ socket }: IncomingMessage): string {
  return plain(socket.remoteAddress ?? '');
}

/** Whether an address is in one of the ranges. @throws TypeError for an invalid range. */
export function createNetworks(ranges: readonly string[]): (address: string) => boolean {
  const networks = new BlockList();
  for (const range of ranges) add(networks, range);
  return (address) => isIP(address) !== 0 && networks.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

function add(list: BlockList, range: string): void {
  const [address = '', bits] = range.split('/');
  const version = isIP(address);
  if (version === 0) throw new TypeError(`Network must be an address or a CIDR range: got ${range}`);
  const type = version === 6 ? 'ipv6' : 'ipv4';
  if (bits === undefined) list.addAddress(address, type);
  else list.addSubnet(address, Number(bits), type);
}

/** Returns `::ffff:192.0.2.1`, an IPv4 client of a socket that listens on IPv6, as `192.0.2.1`. */
export function plain(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

function network64(address: string): string {
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}
