import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { refuseUpgrade } from '../controllers/gateway/upgrade.ts';
import { keys } from '../store/keys.ts';
import type { Mirror } from '../store/mirror.ts';

type Handle = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

export interface UpgradeTargets {
  mirror: Pick<Mirror, 'key'>;
  gateway: {
    handleUpgrade(tenant: string, request: IncomingMessage, socket: Duplex, head: Buffer, address: string): void;
    handleRelay(request: IncomingMessage, socket: Duplex, head: Buffer, address: string): void;
  };
  /** The client that a request comes from. */
  addressOf: (request: IncomingMessage) => string;
  /** Returns `false` if the request is not for a stream of a tenant. */
  api: { handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean };
}

/** Routes each WebSocket request: those of agents and replicas to the gateway, those of users to the API. */
export function createUpgrades({ mirror, gateway, addressOf, api }: UpgradeTargets): Handle {
  return (request, socket, head) => {
    const [path = ''] = (request.url ?? '').split('?');
    if (path === '/internal/v1/relay') {
      gateway.handleRelay(request, socket, head, addressOf(request));
      return;
    }
    const tenant = /^\/([^/]+)\/agent\/v1\/connect$/.exec(path)?.[1];
    if (tenant !== undefined && mirror.key(keys.tenant(tenant)) !== undefined)
      gateway.handleUpgrade(tenant, request, socket, head, addressOf(request));
    else if (!api.handleUpgrade(request, socket, head)) refuseUpgrade(socket, 404, 'There is no such stream');
  };
}
