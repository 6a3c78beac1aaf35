import { generateKeyPairSync, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { WebSocket } from 'ws';
import { AgentSession } from '../../agent-protocol/agent-session.ts';
import type { AgentEnd } from '../../agent-protocol/agent-session.ts';
import { systemClock } from '../../time/clock.ts';
import type { Verdict } from '../../agent-protocol/control-proof.ts';
import { subprotocol } from '../../agent-protocol/messages.ts';
import type { Position } from '../../agent-protocol/messages.ts';
import { socketWire } from '../../agent-protocol/socket-wire.ts';
import { FakeBackend } from './fake-backend.ts';
import { within } from './within.ts';

/** A key as an agent holds it. */
export interface AgentKey {
  privateKey: KeyObject;
  publicKey: string;
}

export function agentKey(): AgentKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { privateKey, publicKey: publicKey.export({ format: 'jwk' }).x ?? '' };
}

/** One connection of an agent, without reconnecting. */
export interface RawAgent {
  session: AgentSession;
  backend: FakeBackend;
  socket: WebSocket;
  /** The code of the refusal, `welcome`, or why the connection was lost. Fails after 10 s. */
  readonly outcome: Promise<string>;
  /** What was made of the control plane's proof. */
  verdict: () => Verdict | undefined;
  /** Fails after 10 s. */
  readonly ended: Promise<AgentEnd>;
  epoch: () => number | undefined;
}

export function rawAgent(
  url: string,
  options: {
    server: string;
    key: AgentKey;
    /** Claims this key, while it signs with its own. */
    claims?: string;
    token?: string;
    machineId?: string;
    processId?: string;
    bootId?: string;
    backend?: FakeBackend;
    store?: Position;
    /** Of the control plane's key that it knows. */
    controlKeyHash?: string;
    /** `acme` by default. */
    tenant?: string;
    /** None by default. */
    capabilities?: readonly string[];
    forbids?: readonly string[];
  },
): RawAgent {
  const backend = options.backend ?? new FakeBackend();
  if (options.store !== undefined) backend.at = options.store;
  const outcome = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<AgentEnd>();
  let epoch: number | undefined;
  let verdict: Verdict | undefined;
  const socket = new WebSocket(
    `${url.replace('http', 'ws')}/${options.tenant ?? 'acme'}/agent/v1/connect`,
    subprotocol,
  );
  const session: AgentSession = new AgentSession({
    wire: socketWire(socket, systemClock, () => session),
    clock: systemClock,
    host: backend,
    hello: {
      protocols: [1],
      agent_version: '1.0.0',
      server_id: options.server,
      public_key: options.claims ?? options.key.publicKey,
      ...(options.token !== undefined && { join_token: options.token }),
      boot_id: options.bootId ?? 'boot',
      machine_id: options.machineId ?? 'machine',
      ...(options.processId !== undefined && { process_id: options.processId }),
      runtime: 'mock',
      runtime_version: '1',
      capabilities: [...(options.capabilities ?? [])],
      ...(options.forbids !== undefined && { forbids: [...options.forbids] }),
    },
    sign: (bytes) => sign(null, bytes, options.key.privateKey).toString('base64url'),
    controlKeyHash: options.controlKeyHash,
    welcomed: (welcome, judged) => {
      verdict = judged;
      epoch = welcome.epoch;
      outcome.resolve('welcome');
    },
    fault: () => undefined,
    ended: (end) => {
      outcome.resolve(end.kind === 'refused' ? end.code : 'why' in end ? end.why : end.reason);
      ended.resolve(end);
    },
  });
  socket.on('open', () => session.start());
  return {
    session,
    backend,
    socket,
    get outcome() {
      return within('the agent is welcomed or refused', outcome.promise);
    },
    get ended() {
      return within('the session of the agent ends', ended.promise);
    },
    epoch: () => epoch,
    verdict: () => verdict,
  };
}
