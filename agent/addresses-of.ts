import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { unlessAborted } from './unless-aborted.ts';

const lookupMs = 10_000;

/** Addresses of a host; an address is its own. @throws Error of the resolver, TimeoutError, or the signal's reason. */
export async function addressesOf(host: string, signal: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const found = await unlessAborted(
    lookup(host, { all: true }),
    AbortSignal.any([signal, AbortSignal.timeout(lookupMs)]),
  );
  return found.map(({ address }) => address);
}
