import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** Where nothing but the machine's own business answers: itself, and the metadata services of clouds. */
const ownBusiness = new BlockList();
for (const [base, bits] of [
  ['0.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 3],
] as const) {
  ownBusiness.addSubnet(base, bits, 'ipv4');
  ownBusiness.addSubnet(`::ffff:${base}`, 96 + bits, 'ipv6');
}
for (const [base, bits] of [
  ['::', 127],
  ['fe80::', 10],
  ['ff00::', 8],
] as const) {
  ownBusiness.addSubnet(base, bits, 'ipv6');
}

/**
 * The addresses of a repository's host.
 * @throws RuntimeFailure `invalid_source` when one of them is this machine's own or a metadata service's,
 * `repository_unreachable` when the name has none.
 */
export async function gitHostAddresses(host: string): Promise<string[]> {
  const name = host.replace(/^\[(.*)\]$/, '$1');
  const found = await resolve(name);
  const own = found.find(({ address, family }) => ownBusiness.check(address, family === 6 ? 'ipv6' : 'ipv4'));
  if (own) {
    const message = `Repositories may not be fetched from ${host}: its address ${own.address} is not one of the network`;
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
  return found.map(({ address }) => address);
}

async function resolve(name: string): Promise<{ address: string; family: number }[]> {
  const family = isIP(name);
  if (family !== 0) return [{ address: name, family }];
  try {
    return await lookup(name, { all: true });
  } catch (error) {
    const message = `The name of the repository's host is not known: ${name}`;
    throw new RuntimeFailure('repository_unreachable', message, { retryable: true, cause: error });
  }
}
