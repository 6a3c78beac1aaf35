import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { unlessAborted } from '../time/unless-aborted.ts';

const lookupMs = 10_000;

/**
 * Returns the IP addresses of a host; for an IP address, the address itself. Waits at most 10 s.
 * @throws Error of the resolver, TimeoutError, or the signal's reason
 */
export async function addressesOf(host: string, signal: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const found = await unlessAborted(
    lookup(host, { all: true }),
    AbortSignal.any([signal, AbortSignal.timeout(lookupMs)]),
  );
  return found.map(({ address }) => address);
}
