import { addressesOf } from '../../network/addresses-of.ts';
import { reachOf } from '../../network/address.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/**
 * Returns the addresses of a repository's host.
 * @param isAllowed true if repositories may be fetched from that address of a private network
 * @throws RuntimeFailure `invalid_source` if one of them belongs to this machine, to a metadata service, or to a
 * private network that is not allowed; `repository_unreachable` if the name has no address
 */
export async function gitHostAddresses(
  host: string,
  isAllowed: (address: string) => boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const name = host.replace(/^\[(.*)\]$/, '$1');
  const found = await resolve(name, signal);
  for (const address of found) {
    const reach = reachOf(address);
    if (reach === 'public' || (reach === 'private' && isAllowed(address))) continue;
    const message =
      reach === 'own'
        ? `Repositories may not be fetched from ${host}: its address ${address} is not one of the network`
        : `Repositories may not be fetched from ${host}: its address ${address} is of a private network, which the operator of the server can allow by --git-private-networks`;
    throw new RuntimeFailure('invalid_source', message, { retryable: false });
  }
  return found;
}

async function resolve(name: string, signal: AbortSignal): Promise<string[]> {
  try {
    return await addressesOf(name, signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `The name of the repository's host is not known: ${name}`;
    throw new RuntimeFailure('repository_unreachable', message, { retryable: true, cause: error });
  }
}
