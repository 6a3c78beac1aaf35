import type { IncomingMessage } from 'node:http';
import { createExactAddress, createNetworks, peerOf, plain } from './client-address.ts';
import type { ApiConfig } from './config.ts';

/**
 * Whether a request for the metrics comes from where they may be read. One that a proxy passed on counts as the proxy's
 * client; by a proxy that is not trusted, as anybody's.
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

/** Whether a request was made on this machine, and not passed on by a proxy on it. */
export function isOfThisMachine(request: IncomingMessage): boolean {
  const peer = peerOf(request);
  return !isForwarded(request) && (isLoopback(peer) || peer === plain(request.socket.localAddress ?? ''));
}

function isForwarded({ headers }: IncomingMessage): boolean {
  return ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'].some((name) => headers[name] !== undefined);
}
