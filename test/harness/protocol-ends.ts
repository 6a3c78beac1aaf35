import { generateKeyPairSync, sign } from 'node:crypto';
import { AgentSession } from '../../agent-protocol/agent-session.ts';
import type { AgentEnd } from '../../agent-protocol/agent-session.ts';
import type { Clock } from '../../time/clock.ts';
import { ControlSession } from '../../agent-protocol/control-session.ts';
import type { ControlHost, Hello, Refusal, Rejection, Report } from '../../agent-protocol/control-session.ts';
import type { AskParams, EngineState, Load, UpdateFailure } from '../../agent-protocol/messages.ts';
import { FakeBackend } from './fake-backend.ts';
import { SocketPair } from './socket-pair.ts';

/** A control plane of the protocol's level: accepts every agent by default and records what it receives. */
export class FakeControl implements ControlHost {
  publicKey = '';
  refuseHello: Refusal | undefined;
  refuseEntry: Refusal | undefined;
  hellos: Hello[] = [];
  reports: Report[] = [];
  applications: number[] = [];
  snapshotsAsked: string[] = [];
  loads: Load[] = [];
  roundTrips: (number | undefined)[] = [];
  engines: EngineState[] = [];
  updates: (UpdateFailure | undefined)[] = [];
  ends: string[] = [];
  isUp = false;
  asked: AskParams[] = [];
  onAsk: (params: AskParams, signal: AbortSignal) => Promise<unknown> = () =>
    Promise.resolve({ addresses: ['https://s3.test/'] });
  onReport: (report: Report) => Promise<Rejection[]> = () => Promise.resolve([]);

  async hello(hello: Hello): Promise<{ refuse: Refusal } | { publicKey: string }> {
    this.hellos.push(hello);
    return this.refuseHello === undefined ? { publicKey: this.publicKey } : { refuse: this.refuseHello };
  }

  async enter() {
    if (this.refuseEntry !== undefined) return { refuse: this.refuseEntry };
    return { welcome: { session: 'session-1', epoch: 7, lease_ms: 30_000, log_retention_days: 3 } };
  }

  up(): void {
    this.isUp = true;
  }

  report(report: Report): Promise<Rejection[]> {
    this.reports.push(report);
    return this.onReport(report);
  }

  applied(revision: number): void {
    this.applications.push(revision);
  }

  ask(params: AskParams, signal: AbortSignal): Promise<unknown> {
    this.asked.push(params);
    return this.onAsk(params, signal);
  }

  needSnapshot(why: string): void {
    this.snapshotsAsked.push(why);
  }

  loaded(load: Load, roundTripMs?: number): void {
    this.loads.push(load);
    this.roundTrips.push(roundTripMs);
  }

  state(engine: EngineState, update: UpdateFailure | undefined): void {
    this.engines.push(engine);
    this.updates.push(update);
  }

  ended(why: string): void {
    this.ends.push(why);
  }
}

/** Both ends of one connection, joined by a socket pair. */
export interface Ends {
  pair: SocketPair;
  backend: FakeBackend;
  host: FakeControl;
  agent: AgentSession;
  control: ControlSession;
  agentEnds: AgentEnd[];
  faults: unknown[];
}

export function protocolEnds(
  clock: Clock,
  options: {
    backend?: FakeBackend;
    host?: FakeControl;
    protocols?: number[];
    serverId?: string;
    capabilities?: string[];
  } = {},
): Ends {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ format: 'jwk' }).x ?? '';
  const pair = new SocketPair();
  const backend = options.backend ?? new FakeBackend();
  const host = options.host ?? new FakeControl();
  host.publicKey ||= key;
  const agentEnds: AgentEnd[] = [];
  const faults: unknown[] = [];
  const agent = new AgentSession({
    wire: pair.agent,
    clock,
    host: backend,
    hello: {
      protocols: options.protocols ?? [1],
      agent_version: '1.0.0',
      server_id: options.serverId ?? 'server-1',
      public_key: key,
      boot_id: 'boot',
      machine_id: 'machine',
      runtime: 'mock',
      runtime_version: '1',
      capabilities: options.capabilities ?? [],
    },
    sign: (bytes) => sign(null, bytes, privateKey).toString('base64url'),
    controlKeyHash: undefined,
    welcomed: () => undefined,
    fault: (error) => faults.push(error),
    ended: (end) => agentEnds.push(end),
  });
  const control = new ControlSession(pair.control, clock, host);
  pair.agent.session = agent;
  pair.control.session = control;
  agent.start();
  return { pair, backend, host, agent, control, agentEnds, faults };
}
