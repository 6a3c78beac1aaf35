import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

/**
 * What an address reaches: the public internet (`public`), a machine of a private network (`private`), or only this
 * machine and the services that its cloud offers to it (`own`).
 */
export type Reach = 'public' | 'private' | 'own';

const own = list([
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fe80::/10',
  'ff00::/8',
  'fd00:ec2::254/128',
]);
const privateNetworks = list([
  '10.0.0.0/8',
  '100.64.0.0/10',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  // IPv4 in IPv6: the form for translation within one network, and the outdated IPv4-compatible form.
  '64:ff9b:1::/48',
  '::/96',
  'fc00::/7',
  'fec0::/10',
]);

/** @param address IPv4 or IPv6, as a DNS lookup returns it */
export function reachOf(address: string): Reach {
  const embedded = embeddedIpv4(address);
  if (embedded !== undefined) return reachOf(embedded);
  const family = familyOf(address);
  if (own.check(address, family)) return 'own';
  return privateNetworks.check(address, family) || isOfThisMachine(address) ? 'private' : 'public';
}

const loopback = list(['127.0.0.0/8', '::1/128']);

/**
 * True for an address at which this machine alone answers. The other addresses of reach `own` are those of its cloud,
 * such as the one that gives out the machine's credentials.
 */
export function isLoopback(address: string): boolean {
  const embedded = embeddedIpv4(address);
  return embedded === undefined ? loopback.check(address, familyOf(address)) : isLoopback(embedded);
}

/** Returns a function that tests if an address is in one of these networks, each written as `10.0.0.0/8`. */
export function networks(cidrs: readonly string[]): (address: string) => boolean {
  const listed = list(cidrs);
  return (address) => listed.check(address, familyOf(address));
}

function list(cidrs: readonly string[]): BlockList {
  const listed = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', bits = ''] = cidr.split('/');
    listed.addSubnet(base, Number(bits), familyOf(base));
  }
  return listed;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** True for an address of this machine: its published services answer there, also if the address is a public one. */
function isOfThisMachine(address: string): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some((one) => one.address === address));
}

/** Returns the IPv4 address within `::ffff:a.b.c.d`, a translated address (64:ff9b::/96) or 6to4 (2002::/16). */
function embeddedIpv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined;
  const groups = groupsOf(address);
  const at = (index: number): number => groups[index] ?? 0;
  const from = (index: number): string =>
    [at(index) >> 8, at(index) & 255, at(index + 1) >> 8, at(index + 1) & 255].join('.');
  const starts = (...wanted: number[]): boolean => wanted.every((group, index) => at(index) === group);
  if (starts(0, 0, 0, 0, 0, 0xffff) || starts(0x64, 0xff9b, 0, 0, 0, 0)) return from(6);
  return starts(0x2002) ? from(1) : undefined;
}

function groupsOf(address: string): number[] {
  const plain = new URL(`http://[${address.replace(/%.*$/, '')}]/`).hostname.slice(1, -1);
  const [head = '', tail] = plain.split('::');
  const numbers = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const [left, right] = [numbers(head), numbers(tail ?? '')];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
}
