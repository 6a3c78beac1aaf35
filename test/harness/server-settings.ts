import { CallError } from '../../agent-protocol/call-error.ts';
import type { ServerSettings } from '../../controllers/server/reconcile.ts';

/** Settings of the server controller where no agent answers. */
export const serverSettings: ServerSettings = {
  offlineAfterMs: 45_000,
  agents: { call: () => Promise.reject(new CallError('away', 'No agent is connected')) },
  ingressImage: 'setpoint-test/caddy:1',
  publicUrl: 'https://setpoint.test',
};
