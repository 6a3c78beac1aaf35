import type { IncomingMessage } from 'node:http';
import { createExactAddress, createNetworks, peerOf, plain } from '../http/client-address.ts';
import type { ApiConfig } from '../ground/config.ts';

/**
 * Whether a request may read the metrics, by its address. A request that a trusted proxy passed on counts as the
 * client's; one that another proxy passed on is refused.
 */
export function createMetricsAccess({
  metricsFrom,
  trustedProxies,
}: Pick<ApiConfig, 'metricsFrom' | 'trustedProxies'>): (request: IncomingMessage) => boolean {
  const addressOf = createExactAddress(trustedProxies);
  const isNear = createNetworks(metricsFrom);
  return (request) => {
    const address = addressOf(request);
    return isNear(address) && !(isForwarded(request) && address === peerOf(request));
  };
}

const isLoopback = createNetworks(['127.0.0.0/8', '::1']);

/** Whether a request was made on this machine and not passed on by a proxy. */
export function isOfThisMachine(request: IncomingMessage): boolean {
  const peer = peerOf(request);
  return !isForwarded(request) && (isLoopback(peer) || peer === plain(request.socket.localAddress ?? ''));
}

function isForwarded({ headers }: IncomingMessage): boolean {
  return ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'].some((name) => headers[name] !== undefined);
}
