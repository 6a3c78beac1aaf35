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
/** Servers whose agents stored a whole set, and those whose complete report was stored, since the start or `forget`. */
const stored = new Set<string>();
const reported = new Set<string>();
/** Servers of whose set an item was put, changed or dropped since `forget`. */
const disturbed = new Set<string>();
const sessions: Promise<void>[] = [];

function start({ server, publicKey, privateKey }: AgentsArgument['agents'][number]): void {
  const key = createPrivateKey(privateKey);
  const backend = new FakeBackend();
  backend.onPut = (item) => ({ ...running(item), image_digest: `sha256:${'ab'.repeat(32)}` });
  backend.configure = () => void welcomed.add(server);
  observe(server, backend);
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

/** Notes what the agent is sent, and what of its reports is stored. */
function observe(server: string, backend: FakeBackend): void {
  const states = (): string =>
    [...backend.items.values()]
      .map(({ id, generation, run }) => `${id} ${generation} ${run}`)
      .toSorted()
      .join(',');
  const snapshot = backend.snapshot.bind(backend);
  backend.snapshot = async (...set) => {
    const before = states();
    await snapshot(...set);
    if (states() !== before) disturbed.add(server);
    stored.add(server);
  };
  const delta = backend.delta.bind(backend);
  backend.delta = async (...change) => {
    disturbed.add(server);
    await delta(...change);
  };
  const acknowledged = backend.acknowledged.bind(backend);
  backend.acknowledged = (reports, rejected) => {
    acknowledged(reports, rejected);
    if (rejected.size === 0 && reports.length === backend.reports().length) reported.add(server);
  };
}

const methods = {
  start: async () => agents.forEach(start),
  /** Number of agents that were welcomed since the start, or since `forget`. */
  welcomed: async () => welcomed.size,
  /** Number of agents that have their whole set, and of which the control plane has stored the complete report. */
  settled: async () => agents.filter((it) => stored.has(it.server) && reported.has(it.server)).length,
  /** Number of agents of whose set something changed since `forget`. */
  disturbed: async () => disturbed.size,
  forget: async () => {
    for (const servers of [welcomed, stored, reported, disturbed]) servers.clear();
  },
};
export type AgentsMethods = typeof methods;

await serve(methods);
stop.abort();
await Promise.all(sessions);
