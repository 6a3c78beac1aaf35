import { reachOf } from '../../network/address.ts';
import { addressesOf } from '../../network/addresses-of.ts';
import { SshFailure } from './ssh-failure.ts';

/**
 * The address to connect to. The name is looked up once, so that what was judged is what is reached.
 *
 * @param isAllowed of the addresses of this machine itself; those of other machines always are
 * @throws SshFailure `not_allowed` if one of the addresses reaches only the control plane's own machine or the metadata
 *   of its cloud, `unreachable` if the name has none; the signal's reason
 */
export async function reachableAddress(
  host: string,
  isAllowed: (address: string) => boolean,
  signal: AbortSignal,
): Promise<string> {
  let found: string[];
  try {
    found = await addressesOf(host, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new SshFailure(
      'unreachable',
      `Its name is not known: ${host}`,
      'Check ip_address (setpoint set server SERVER --address ADDRESS), and the DNS',
      {
        cause: error,
      },
    );
  }
  for (const address of found)
    if (reachOf(address) === 'own' && !isAllowed(address))
      throw new SshFailure(
        'not_allowed',
        `Its address reaches only the control plane's own machine: ${address}`,
        'Use the address by which others reach that machine, or let its operator allow it by --ssh-networks',
      );
  const [first] = found;
  if (first === undefined)
    throw new SshFailure(
      'unreachable',
      `Its name has no address: ${host}`,
      'Check ip_address (setpoint set server SERVER --address ADDRESS), and the DNS',
    );
  return first;
}
