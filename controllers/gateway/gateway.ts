import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { maxFrameBytes } from '../../agent-protocol/codec.ts';
import { ControlSession } from '../../agent-protocol/control-session.ts';
import type { LogChunk } from '../../agent-protocol/logs.ts';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import type { TrafficSample } from '../../agent-protocol/traffic.ts';
import { subprotocol } from '../../agent-protocol/messages.ts';
import type { CallParams, Load, LogStreamParams, StreamParams } from '../../agent-protocol/messages.ts';
import { socketWire } from '../../agent-protocol/socket-wire.ts';
import type { Frame } from '../../agent-protocol/wire.ts';
import type { Clock } from '../../time/clock.ts';
import { parseKey } from '../../store/keys.ts';
import type { KeyChange, Mirror, ObjectChange } from '../../store/mirror.ts';
import type { Replica } from '../../store/replicas.ts';
import type { Repository } from '../../store/repo.ts';
import type { Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import { Admission } from './admission.ts';
import type { Place, Sender } from './admission.ts';
import { announceReplica } from './announce-replica.ts';
import { ByteBudget, ByteBudgets } from './byte-budget.ts';
import { ControlKeys } from './control-keys.ts';
import { limits } from './limits.ts';
import { gatewayMetrics } from './metrics.ts';
import { lostServers, serverGauges } from './server-gauges.ts';
import { serverOf } from '../../store/server-of.ts';
import type { ConnectedServer } from './server-gauges.ts';
import { AgentRoutes } from './agent-routes.ts';
import { Paces } from './pace.ts';
import { Passes } from './passes.ts';
import type { DialReplica } from './relay-client.ts';
import { RelayServer } from './relay-server.ts';
import type { LocalSessions } from './relay-server.ts';
import { ServerSession } from './server-session.ts';
import type { SessionOwner } from './server-session.ts';
import type { SessionDeps } from './session-deps.ts';
import type { AddressSigner } from './transfers.ts';
import { refuseUpgrade } from './upgrade.ts';

export interface GatewayOptions {
  store: Store;
  mirror: Mirror;
  repositoryFor: (tenant: string) => Repository;
  unsealer: Unsealer;
  /** Signs addresses of buckets for tasks that send or fetch bytes. */
  signer: AddressSigner;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  log: Logger;
  registry: Registry;
  /** Called for a deviation that an agent corrected, with the kind of the workload. */
  driftCorrected: (kind: string) => void;
  replica: Replica;
  /** Ports on which the control plane is reached: no application takes them. */
  ownPorts: readonly number[];
  /** See `clusterKey`. */
  clusterKey: Uint8Array;
  dialReplica?: DialReplica | undefined;
}

/**
 * The endpoint of agents: holds their sessions, sends them their desired sets, stores their reports, and reaches any
 * agent for calls and streams, through the replica that holds its session. Disposing drains it.
 */
export class Gateway implements AsyncDisposable, SessionOwner {
  #options: GatewayOptions;
  #deps: SessionDeps;
  #admission: Admission;
  #passes: Passes;
  #reports: Paces;
  #budgets: ByteBudgets;
  #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxFrameBytes,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(subprotocol) ? subprotocol : false),
  });
  /** Sessions whose agent is not welcomed yet, each with its place and a function that cancels its deadline. */
  #pending = new Map<ServerSession, { place: Place; relax: () => void }>();
  #sessions = new Map<string, ServerSession>();
  #loadListeners = new Map<string, Set<(load: Load) => void>>();
  #routes: AgentRoutes;
  #relay: RelayServer;
  #stop = new AbortController();
  #announcing: Promise<void>;
  #unsubscribe: (() => void)[];

  constructor(options: GatewayOptions) {
    const { store, mirror, clock, random, log, registry, replica, clusterKey, dialReplica } = options;
    this.#options = options;
    const metrics = gatewayMetrics(registry, () => this.#sessions.size);
    serverGauges(registry, () => this.#connected());
    lostServers(registry, mirror);
    this.#deps = { ...options, metrics, replica: replica.id, controlKeys: new ControlKeys(mirror, options.unsealer) };
    this.#admission = new Admission(clock);
    this.#passes = new Passes(mirror, clock);
    this.#budgets = new ByteBudgets(clock);
    this.#reports = new Paces(clock, limits.intake.reportsPerSecond);
    const sessionOf = (tenant: string, server: string) => this.#sessions.get(keyOf(tenant, server));
    const local: LocalSessions = {
      sessionOf: (tenant, server) => sessionOf(tenant, server)?.control,
      roundTripOf: (tenant, server) => sessionOf(tenant, server)?.roundTripMs,
      opened: (tenant, server, params) => sessionOf(tenant, server)?.opened(params) ?? params,
    };
    this.#routes = new AgentRoutes({
      mirror,
      clock,
      random,
      metrics,
      replica: replica.id,
      clusterKey,
      dialReplica,
      local,
    });
    this.#relay = new RelayServer({ clock, log, clusterKey, url: replica.url, local });
    this.#announcing = announceReplica(store, clock, log, replica, this.#stop.signal);
    this.#unsubscribe = [
      mirror.subscribe((change) => {
        if (change.kind === 'server' && change.after === undefined) this.#passes.forget(change.tenant, change.id);
        for (const session of this.#concerned(change)) session.changed(change);
      }),
      mirror.subscribeKeys((change) => this.#keyChanged(change)),
    ];
  }

  /** Handles an upgrade request to `/<tenant>/agent/v1/connect` from that address. The tenant must exist. */
  handleUpgrade(tenant: string, request: IncomingMessage, socket: Duplex, head: Buffer, address: string): void {
    const offered = request.headers['sec-websocket-protocol']?.split(',').map((it) => it.trim()) ?? [];
    if (!offered.includes(subprotocol)) refuseUpgrade(socket, 400, `Subprotocol must be ${subprotocol}`);
    else {
      const sender = { address, server: this.#passes.serverOf(tenant, request) };
      if (this.#stop.signal.aborted || !this.#admission.hasRoom(sender))
        refuseUpgrade(socket, 503, 'Too many agents connect at once');
      else this.#sockets.handleUpgrade(request, socket, head, (it) => this.#accept(tenant, it, sender));
    }
  }

  /** Handles another replica's upgrade request to `/internal/v1/relay` from that address. */
  handleRelay(request: IncomingMessage, socket: Duplex, head: Buffer, address: string): void {
    this.#relay.handleUpgrade(request, socket, head, address);
  }

  /** @throws AgentAway, CallFailed, or the signal's reason */
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown> {
    return this.#routes.call(tenant, server, params, options);
  }

  /** See {@link AgentRoutes.roundTrips}. */
  roundTrips(
    tenant: string,
    servers: readonly string[],
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<ReadonlyMap<string, number>> {
    return this.#routes.roundTrips(tenant, servers, options);
  }

  /** The agent sends only as fast as the reader reads. @throws AgentAway, CallFailed, or the signal's reason */
  stream(
    tenant: string,
    server: string,
    params: LogStreamParams,
    options: { signal: AbortSignal },
  ): AsyncIterable<LogChunk> {
    return this.#routes.stream(tenant, server, params, options);
  }

  /** Yields the newest measurement of the server, every 5 s. @throws AgentAway, CallFailed, or the signal's reason */
  samples(tenant: string, server: string, options: { signal: AbortSignal }): AsyncIterable<ServerSample> {
    return this.#routes.samples(tenant, server, options);
  }

  traffic(
    tenant: string,
    server: string,
    workload: string,
    options: { signal: AbortSignal },
  ): AsyncIterable<TrafficSample> {
    return this.#routes.traffic(tenant, server, workload, options);
  }

  /**
   * Opens a stream in both directions and yields its output. The agent takes `outgoing` as fast as its process reads.
   * @throws AgentAway, CallFailed, or the signal's reason
   */
  duplex(
    tenant: string,
    server: string,
    params: StreamParams,
    outgoing: AsyncIterable<Uint8Array>,
    options: { signal: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    return this.#routes.duplex(tenant, server, params, outgoing, options);
  }

  /**
   * Public key (Ed25519, raw, base64url) by which agents are to know this control plane. @throws Error until the mirror
   * shows it
   */
  controlKey(): string {
    return this.#deps.controlKeys.newest;
  }

  /** The last load that the server's agent reported, if this replica holds its session. */
  loadOf(tenant: string, server: string): Load | undefined {
    return this.#sessions.get(keyOf(tenant, server))?.load;
  }

  /** Calls the listener with each load of that server that comes to this replica. */
  onLoad(tenant: string, server: string, listener: (load: Load) => void): () => void {
    const key = keyOf(tenant, server);
    const listeners = this.#loadListeners.get(key) ?? new Set();
    this.#loadListeners.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#loadListeners.get(key) === listeners) this.#loadListeners.delete(key);
    };
  }

  /** Sends a goodbye to every agent, with a delay that spreads their reconnections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    const spread = this.#sessions.size * limits.drain.perAgentMs;
    const retryAfterMs = Math.min(limits.drain.maxMs, Math.max(limits.drain.minMs, spread));
    const sessions = [...this.#sessions.values()];
    for (const session of this.#pending.keys()) session.control.close('Control plane stops');
    for (const session of sessions) session.control.goodbye('Control plane stops', retryAfterMs);
    await Promise.all(sessions.map((session) => session.closed));
    await this.#relay[Symbol.asyncDispose]();
    await this.#announcing;
  }

  greets(session: ServerSession): { retryAfterMs: number } | undefined {
    const pending = this.#pending.get(session);
    if (pending === undefined) return { retryAfterMs: limits.refusal.busyMs };
    this.#await(session, pending.place, 'proof', limits.admission.proofMs);
    const paced = pending.place.begin();
    return paced.admitted ? undefined : paced;
  }

  proved(session: ServerSession): void {
    this.#pending.get(session)?.relax();
  }

  entered(session: ServerSession): void {
    this.#leavePlace(session);
    const key = keyOf(session.tenant, session.server ?? '');
    const older = this.#sessions.get(key);
    this.#sessions.set(key, session);
    if (older !== session) older?.superseded();
  }

  ended(session: ServerSession): void {
    this.#leavePlace(session);
    const key = keyOf(session.tenant, session.server ?? '');
    if (this.#sessions.get(key) === session) this.#sessions.delete(key);
  }

  async mayReport(session: ServerSession): Promise<void> {
    const name = keyOf(session.tenant, session.server ?? '');
    for (;;) {
      const paced = this.#reports.begin(name);
      if (paced.admitted) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#options.clock.timer(paced.retryAfterMs, resolve);
      await promise;
    }
  }

  loaded(session: ServerSession): void {
    const listeners = this.#loadListeners.get(keyOf(session.tenant, session.server ?? ''));
    if (listeners !== undefined && session.load !== undefined) for (const listener of listeners) listener(session.load);
  }

  #accept(tenant: string, socket: WebSocket, sender: Sender): void {
    const { clock, repositoryFor } = this.#options;
    const unknown = new ByteBudget(clock);
    const restAfter = (frame: Frame): number => {
      const { server } = session;
      const budget = server === undefined ? unknown : this.#budgets.of(keyOf(tenant, server));
      const ms = budget.take(frame);
      if (ms > 0) session.slowed();
      return ms;
    };
    const wire = socketWire(socket, clock, () => control, restAfter);
    const session = new ServerSession(this.#deps, this, { name: tenant, repo: repositoryFor(tenant) }, () => control);
    const control: ControlSession = new ControlSession(wire, clock, session);
    this.#await(session, this.#admission.take(sender), 'hello', limits.admission.helloMs);
  }

  /** Sets the deadline of a session that has a place: without the awaited message in time it is closed. */
  #await(session: ServerSession, place: Place, what: string, withinMs: number): void {
    this.#pending.get(session)?.relax();
    const relax = this.#options.clock.timer(withinMs, () => session.control.close(`Sent no ${what} in time`));
    this.#pending.set(session, { place, relax });
  }

  #leavePlace(session: ServerSession): void {
    const pending = this.#pending.get(session);
    if (pending === undefined) return;
    this.#pending.delete(session);
    pending.relax();
    pending.place.free();
  }

  #keyChanged(change: KeyChange): void {
    const meaning = parseKey(change.key);
    if (meaning?.area !== 'agent' && meaning?.area !== 'removals') return;
    this.#sessions.get(keyOf(meaning.tenant, meaning.server))?.keyChanged(change);
  }

  *#connected(): Generator<ConnectedServer> {
    for (const { tenant, server: id = '', load } of this.#sessions.values()) {
      const view = this.#options.mirror.tenant(tenant);
      const name = view.get('server', id)?.desired.name;
      if (name !== undefined)
        yield { tenant, id, name, load, view, pausedMs: this.#budgets.of(keyOf(tenant, id)).pausedMs };
    }
  }

  *#concerned({ tenant, kind, id, before, after }: ObjectChange): Generator<ServerSession> {
    if (kind === 'settings' || kind === 'registry') {
      for (const [key, session] of this.#sessions) if (key.startsWith(keyOf(tenant, ''))) yield session;
      return;
    }
    const servers = kind === 'server' ? [id] : [serverOf(before), serverOf(after)];
    for (const server of new Set(servers)) {
      const session = server === undefined ? undefined : this.#sessions.get(keyOf(tenant, server));
      if (session !== undefined) yield session;
    }
  }
}

function keyOf(tenant: string, server: string): string {
  return `${tenant}/${server}`;
}
