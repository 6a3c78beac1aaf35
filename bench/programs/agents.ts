/** Agents without containers: they have real sessions over real sockets, and report each desired item as running. */
import { createPrivateKey, sign } from 'node:crypto';
import { pino } from 'pino';
import { systemClock } from '../../time/clock.ts';
import { connect } from '../../agent/connect.ts';
import { FakeBackend, running } from '../../test/harness/fake-backend.ts';
import { argument, serve } from '../parent.ts';

export interface AgentsArgument {
  /** URL of the control plane with the tenant. */
  url: string;
  agents: { server: string; publicKey: string; /** PKCS #8, PEM. */ privateKey: string }[];
}

const { url, agents } = await argument<AgentsArgument>();
const stop = new AbortController();
const welcomed = new Set<string>();
const sessions: Promise<void>[] = [];

function start({ server, publicKey, privateKey }: AgentsArgument['agents'][number]): void {
  const key = createPrivateKey(privateKey);
  const backend = new FakeBackend();
  backend.onPut = (item) => ({ ...running(item), image_digest: `sha256:${'ab'.repeat(32)}` });
  backend.configure = () => void welcomed.add(server);
  const session = connect(
    {
      urls: [url],
      identity: {
        serverId: server,
        publicKey,
        joinToken: undefined,
        controlKeyHash: undefined,
        sign: (bytes) => sign(null, bytes, key).toString('base64url'),
        joined: async () => undefined,
      },
      machine: { machineId: server, bootId: server },
      agentVersion: '0.0.0',
      runtime: () => ({ name: 'mock', version: '1' }),
      backend,
      clock: systemClock,
      random: Math.random,
      log: pino({ level: 'silent' }),
    },
    stop.signal,
  );
  sessions.push(session);
}

const methods = {
  start: async () => agents.forEach(start),
  /** Number of agents that were welcomed since the start, or since `forget`. */
  welcomed: async () => welcomed.size,
  forget: async () => welcomed.clear(),
};
export type AgentsMethods = typeof methods;

await serve(methods);
stop.abort();
await Promise.all(sessions);
