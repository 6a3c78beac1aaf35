import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import type { z } from 'zod';
import { sendableError } from '../../agent-protocol/call-error.ts';
import { maxFrameBytes } from '../../agent-protocol/codec.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { ControlSession } from '../../agent-protocol/control-session.ts';
import { decodeData } from '../../agent-protocol/data-frame.ts';
import { Outbox } from '../../agent-protocol/outbox.ts';
import { ServedStreams } from '../../agent-protocol/served-streams.ts';
import { socketWire } from '../../agent-protocol/socket-wire.ts';
import { closeCodes } from '../../agent-protocol/wire.ts';
import type { Frame, Wire } from '../../agent-protocol/wire.ts';
import type { Clock } from '../../time/clock.ts';
import { ByteBudget } from './byte-budget.ts';
import { limits } from './limits.ts';
import { Places } from './places.ts';
import {
  isRelayPass,
  isRelayProof,
  LaterRequest,
  relayPassHeader,
  RelayRequest,
  relaySubprotocol,
  ToHolder,
} from './relay-messages.ts';
import type { FromHolder } from './relay-messages.ts';
import { refuseUpgrade } from './upgrade.ts';

/** The sessions that this replica holds. */
export interface LocalSessions {
  sessionOf(tenant: string, server: string): ControlSession | undefined;
  /** Round trip of the agent's last beats in milliseconds, if this replica holds the agent and knows it. */
  roundTripOf(tenant: string, server: string): number | undefined;
  /** The call as it is sent to the agent, see {@link Projection.call}. */
  opened(tenant: string, server: string, params: CallParams): CallParams;
}

export interface RelayServerOptions {
  clock: Clock;
  log: Logger;
  clusterKey: Uint8Array;
  /** The address of this replica, by which others reach it. */
  url: string;
  local: LocalSessions;
}

/**
 * Serves calls and streams of the agents that this replica holds to other replicas. It authorises the replica; that
 * replica has authorised the user. It never passes a request on: it answers `moved` for an agent that it does not hold.
 */
export class RelayServer implements AsyncDisposable {
  #options: RelayServerOptions;
  #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxFrameBytes,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(relaySubprotocol) ? relaySubprotocol : false),
  });
  #connections = new Set<RelayConnection>();
  /** Those among them that serve a stream. */
  #streaming = new Set<RelayConnection>();
  /** Those among them of strangers, until their request is proved. */
  #strangers = new Map<RelayConnection, () => void>();
  #places = new Places(limits.relay.strangers);
  /** Of what strangers send. */
  #budget: ByteBudget;

  constructor(options: RelayServerOptions) {
    this.#options = options;
    this.#budget = new ByteBudget(options.clock);
  }

  /** Handles an upgrade request from that address. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, address: string): void {
    const isStranger = !this.#hasPass(request);
    if (isStranger ? this.#places.hasRoom(address) : this.#hasRoom())
      this.#sockets.handleUpgrade(request, socket, head, (it) => this.#accept(it, isStranger ? address : undefined));
    else refuseUpgrade(socket, 503, 'Too many relayed requests');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of this.#connections) connection.close('Control plane stops');
  }

  #hasPass({ headers }: IncomingMessage): boolean {
    const { clusterKey, url, clock } = this.#options;
    const pass = headers[relayPassHeader];
    return typeof pass === 'string' && isRelayPass(clusterKey, url, pass, clock.now());
  }

  /** Whether there is a place among those that showed a pass or proved their request. */
  #hasRoom(): boolean {
    return this.#connections.size - this.#strangers.size < limits.relay.connections;
  }

  /** `stranger`: the address of a connection without a pass. */
  #accept(socket: WebSocket, stranger: string | undefined): void {
    const wire = socketWire(socket, this.#options.clock, () => connection);
    const connection: RelayConnection = new RelayConnection(wire, this.#options, {
      mayTake: (frame) => !this.#strangers.has(connection) || this.#budget.take(frame) === 0,
      proved: () => {
        if (!this.#strangers.has(connection)) return true;
        const hasRoom = this.#hasRoom();
        if (hasRoom) this.#leavePlace(connection);
        return hasRoom;
      },
      mayStream: () => {
        const hasRoom = this.#streaming.size < limits.relay.streams;
        if (hasRoom) this.#streaming.add(connection);
        return hasRoom;
      },
      ended: () => {
        this.#leavePlace(connection);
        this.#streaming.delete(connection);
        this.#connections.delete(connection);
      },
    });
    this.#connections.add(connection);
    if (stranger !== undefined) this.#strangers.set(connection, this.#places.take(stranger));
  }

  #leavePlace(connection: RelayConnection): void {
    this.#strangers.get(connection)?.();
    this.#strangers.delete(connection);
  }
}

/** What the server of a connection decides about it. */
interface ConnectionOwner {
  /** Whether the frame may be parsed: strangers together send no more than one agent may. */
  mayTake(frame: Frame): boolean;
  /** The request is of a replica of this cluster. Answers whether there is room to serve it. */
  proved(): boolean;
  /** Answers whether there is room for a stream. */
  mayStream(): boolean;
  ended(): void;
}

/** One request of another replica. The stream has the id 1. States: challenged → serving → closed. */
class RelayConnection {
  #wire: Wire;
  #options: RelayServerOptions;
  #nonce = randomBytes(32).toString('base64url');
  #isServing = false;
  #stop = new AbortController();
  #outbox: Outbox;
  #streams: ServedStreams;
  #owner: ConnectionOwner;
  #ended: () => void;

  constructor(wire: Wire, options: RelayServerOptions, owner: ConnectionOwner) {
    this.#wire = wire;
    this.#options = options;
    this.#owner = owner;
    const deadline = options.clock.timer(
      limits.relay.connectMs,
      () => this.#isServing || this.close('No request came'),
    );
    this.#ended = () => {
      deadline();
      owner.ended();
    };
    this.#outbox = new Outbox(wire, {
      nextFrame: () => this.#streams.next(),
      overflow: () => this.close('Reads too slowly'),
    });
    this.#streams = new ServedStreams(
      {
        accept: (_, credit) => this.#send({ type: 'accept', ...(credit !== undefined && { credit }) }),
        credit: (_, bytes) => this.#send({ type: 'credit', bytes }),
        end: () => this.#send({ type: 'end' }),
        reset: (_, code, message, only) =>
          this.#send({ type: 'reset', code, message, ...(only !== undefined && { only }) }),
      },
      () => this.#outbox.pump(),
    );
    this.#send({ type: 'challenge', nonce: this.#nonce });
  }

  receive(frame: Frame): void {
    if (!this.#owner.mayTake(frame)) {
      this.close('Strangers send too much');
      return;
    }
    const message = typeof frame === 'string' ? parse(ToHolder, frame) : undefined;
    if (typeof frame !== 'string') this.#data(frame);
    else if (message === undefined) this.close('Not of the protocol', closeCodes.protocol);
    else this.#handle(message);
  }

  drained(): void {
    this.#outbox.pump();
  }

  closed(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#outbox.close();
    this.#streams.close();
    this.#ended();
  }

  close(why: string, code: number = closeCodes.policy): void {
    this.closed();
    this.#wire.close(code, why);
  }

  #handle(message: ToHolder): void {
    switch (message.type) {
      case 'open':
        this.#open(message.request, message.proof);
        return;
      case 'credit':
        this.#streams.grant(1, message.bytes);
        return;
      case 'reset':
        this.#streams.inputFailed(1, message.code, message.message);
        return;
      case 'end':
        this.close('The reader left', closeCodes.normal);
    }
  }

  #data(frame: Uint8Array): void {
    const data = decodeData(frame);
    if (data === undefined || !this.#streams.data(data)) this.close('Not of the protocol', closeCodes.protocol);
  }

  #open(text: string, proof: string): void {
    if (this.#isServing || !isRelayProof(this.#options.clusterKey, this.#nonce, text, proof)) {
      this.#options.log.warn('Refused a relayed request: its sender is no replica of this cluster');
      this.close('Not of this cluster');
      return;
    }
    if (!this.#owner.proved()) {
      this.close('Too many relayed requests');
      return;
    }
    this.#isServing = true;
    const known = parse(RelayRequest, text);
    const later = known === undefined ? parse(LaterRequest, text) : undefined;
    if (known !== undefined) this.#take(known);
    else if (later === undefined) this.close('Request of another version', closeCodes.protocol);
    else if (this.#sessionOf(later) === undefined) this.#send({ type: 'moved' });
    else this.#refuse(later.what);
  }

  #sessionOf({ tenant, server }: Pick<RelayRequest, 'tenant' | 'server'>): ControlSession | undefined {
    const session = this.#options.local.sessionOf(tenant, server);
    return session?.isUp === true ? session : undefined;
  }

  #take(request: RelayRequest): void {
    const { tenant, what } = request;
    if (what.kind === 'round_trips') {
      this.#send({ type: 'result', ok: roundTripsOf(this.#options.local, tenant, what.servers) });
      return;
    }
    const session = this.#sessionOf(request);
    if (session === undefined) this.#send({ type: 'moved' });
    else this.#serve(session, request);
  }

  #serve(session: ControlSession, request: RelayRequest): void {
    const { what } = request;
    if (what.kind === 'round_trips') return;
    if (what.kind === 'stream' && !this.#owner.mayStream()) {
      const message = `Other replicas read ${limits.relay.streams} streams of agents of this one already: try again later`;
      this.#send({ type: 'reset', code: 'too_many', message });
    } else if (what.kind === 'stream')
      this.#streams.open(1, { credit: what.credit, duplex: what.duplex === true }, (incoming, signal) =>
        what.duplex === true ? session.duplex(what.params, incoming, signal) : session.stream(what.params, signal),
      );
    else void this.#call(session, request, what);
  }

  #refuse(what: LaterRequest['what']): void {
    const name = what.kind === 'stream' ? `kind ${what.params.kind}` : `method ${what.params.method}`;
    const error = {
      code: 'unsupported',
      message: `The replica that holds the agent is of an earlier release and cannot pass on ${name.slice(0, 64)}: upgrade all replicas`,
    };
    this.#send(what.kind === 'stream' ? { type: 'reset', ...error } : { type: 'result', error });
  }

  async #call(
    session: ControlSession,
    { tenant, server }: RelayRequest,
    what: Extract<RelayRequest['what'], { kind: 'call' }>,
  ): Promise<void> {
    try {
      const params = this.#options.local.opened(tenant, server, what.params);
      const ok = await session.call(params, what.timeout_ms, this.#stop.signal);
      this.#send({ type: 'result', ok });
    } catch (error) {
      this.#send({ type: 'result', error: sendableError(error) });
    }
  }

  #send(message: FromHolder): void {
    if (!this.#stop.signal.aborted) this.#outbox.push(JSON.stringify(message));
  }
}

/** Round trips of those of these servers that this replica holds, by server. */
export function roundTripsOf(local: LocalSessions, tenant: string, servers: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    servers.flatMap((server) => {
      const roundTrip = local.roundTripOf(tenant, server);
      return roundTrip === undefined ? [] : [[server, roundTrip]];
    }),
  );
}

/** Parses a message; `undefined` if it does not match the schema. */
function parse<T>(schema: z.ZodType<T>, text: string): T | undefined {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
