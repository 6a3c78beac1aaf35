import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { CallError } from '../../agent-protocol/call-error.ts';
import { maxFrameBytes } from '../../agent-protocol/codec.ts';
import { decodeData } from '../../agent-protocol/data-frame.ts';
import type { CallParams, StreamParams } from '../../agent-protocol/messages.ts';
import { OpenedStreams } from '../../agent-protocol/opened-streams.ts';
import { Outbox } from '../../agent-protocol/outbox.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import { socketWire } from '../../agent-protocol/socket-wire.ts';
import { closeCodes } from '../../agent-protocol/wire.ts';
import type { Frame, Wire } from '../../agent-protocol/wire.ts';
import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';
import { FromHolder, relayPass, relayPassHeader, relayProof, relaySubprotocol, RoundTrips } from './relay-messages.ts';
import type { RelayRequest, ToHolder } from './relay-messages.ts';

/** Connects to the replica of that address; replaces TCP and TLS. */
export type DialReplica = (url: string) => Duplex;

/** The agent to reach, and the replica that holds its session. */
export interface RelayTarget {
  /** Address of the replica that holds the agent, `http:` or `https:`. */
  url: string;
  dial?: DialReplica | undefined;
  clusterKey: Uint8Array;
  clock: Clock;
  tenant: string;
  server: string;
}

/**
 * Calls an agent that another replica holds.
 *
 * @throws CallError of the agent, `moved` if that replica does not hold it, `away` if the replica cannot be reached; the
 *   signal's reason when aborted.
 */
export async function relayCall(
  target: RelayTarget,
  params: CallParams,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<unknown> {
  await using link = await RelayLink.open(target, signal);
  link.send({ kind: 'call', params, timeout_ms: timeoutMs });
  return await link.result(timeoutMs + limits.relay.connectMs);
}

/**
 * Asks another replica for the round trips of those of these servers that it holds, by server.
 *
 * @throws CallError `away` if the replica cannot be reached or is of an earlier release; the signal's reason when aborted
 */
export async function relayRoundTrips(
  target: Omit<RelayTarget, 'server'>,
  servers: readonly string[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Readonly<Record<string, number>>> {
  await using link = await RelayLink.open({ ...target, server: '' }, signal);
  link.send({ kind: 'round_trips', servers: [...servers] });
  return RoundTrips.parse(await link.result(timeoutMs));
}

/**
 * Opens a stream of an agent that another replica holds, duplex if `outgoing` is given: see {@link OpenedStreams.open}.
 * Throws the errors of {@link relayCall}; nothing of `outgoing` was taken if the code is `moved`.
 */
export async function* relayStream(
  target: RelayTarget,
  params: StreamParams,
  outgoing: AsyncIterable<Uint8Array> | undefined,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const link = await RelayLink.open(target, signal);
  yield* link.stream(params, outgoing);
}

/** One connection to the holder of an agent, challenged and ready for its one request. */
class RelayLink implements AsyncDisposable {
  #target: RelayTarget;
  #signal: AbortSignal;
  #wire: Wire;
  #nonce = Promise.withResolvers<string>();
  #result = Promise.withResolvers<unknown>();
  #challenge = '';
  #outbox: Outbox;
  #streams: OpenedStreams<StreamParams>;

  constructor(target: RelayTarget, signal: AbortSignal) {
    this.#target = target;
    this.#signal = signal;
    const { dial, clusterKey, clock } = target;
    const url = new URL('/internal/v1/relay', target.url);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(url, relaySubprotocol, {
      perMessageDeflate: false,
      maxPayload: maxFrameBytes,
      handshakeTimeout: limits.relay.connectMs,
      headers: { [relayPassHeader]: relayPass(clusterKey, target.url, clock.now()) },
      ...(dial !== undefined && { createConnection: () => dial(target.url) }),
    });
    this.#wire = socketWire(socket, clock, () => this);
    this.#outbox = new Outbox(this.#wire, {
      nextFrame: () => this.#streams.next(),
      overflow: () => this.#fail(unreachable(new Error('The other replica reads too slowly'))),
    });
    this.#streams = new OpenedStreams<StreamParams>(
      {
        open: (_, params, credit, duplex) => this.send({ kind: 'stream', params, credit, ...(duplex && { duplex }) }),
        credit: (_, bytes) => this.#send({ type: 'credit', bytes }),
        end: () => this.#send({ type: 'end' }),
        resetInput: (_, code, message) => this.#send({ type: 'reset', code, message }),
      },
      target.clock,
      { wake: () => this.#outbox.pump(), over: () => this.#wire.close(closeCodes.normal, '') },
    );
    this.#nonce.promise.catch(() => undefined); // `open` waits for it, but not after an abort
    this.#result.promise.catch(() => undefined); // a stream does not await it
  }

  static async open(target: RelayTarget, signal: AbortSignal): Promise<RelayLink> {
    signal.throwIfAborted();
    const link = new RelayLink(target, signal);
    const deadline = signalAfter(target.clock, limits.relay.connectMs, signal);
    const abort = (): void => link.#nonce.reject(deadline.signal.reason);
    deadline.signal.addEventListener('abort', abort, { once: true });
    try {
      link.#challenge = await link.#nonce.promise;
      return link;
    } catch (error) {
      link.#wire.close(closeCodes.normal, '');
      signal.throwIfAborted();
      throw error instanceof CallError && error.code !== 'timeout' ? error : unreachable(error);
    } finally {
      deadline.cancel();
    }
  }

  send(what: RelayRequest['what']): void {
    const { tenant, server, clusterKey } = this.#target;
    const request = JSON.stringify({ tenant, server, what } satisfies RelayRequest);
    this.#send({ type: 'open', request, proof: relayProof(clusterKey, this.#challenge, request) });
  }

  async result(withinMs: number): Promise<unknown> {
    const deadline = signalAfter(this.#target.clock, withinMs, this.#signal);
    const abort = (): void => this.#result.reject(deadline.signal.reason);
    deadline.signal.addEventListener('abort', abort, { once: true });
    try {
      return await this.#result.promise;
    } finally {
      deadline.cancel();
    }
  }

  /** The link closes when the stream is over in both directions. */
  async *stream(
    params: StreamParams,
    outgoing: AsyncIterable<Uint8Array> | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.#streams.open(params, outgoing, this.#signal);
    } finally {
      if (this.#streams.ids.length === 0) await this[Symbol.asyncDispose]();
    }
  }

  receive(frame: Frame): void {
    const message = typeof frame === 'string' ? parse(frame) : undefined;
    if (typeof frame !== 'string') this.#data(frame);
    else if (message === undefined) this.closed('Not of the protocol');
    else this.#handle(message);
  }

  drained(): void {
    this.#outbox.pump();
  }

  closed(why: string): void {
    const error = unreachable(new Error(why));
    this.#nonce.reject(error);
    this.#result.reject(error);
    this.#streams.close(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#wire.close(closeCodes.normal, '');
  }

  #handle(message: FromHolder): void {
    switch (message.type) {
      case 'challenge':
        this.#nonce.resolve(message.nonce);
        return;
      case 'result':
        if (message.error === undefined) this.#result.resolve(message.ok);
        else this.#result.reject(new CallError(message.error.code, message.error.message));
        return;
      case 'accept':
        this.#streams.accepted(1, message.credit);
        return;
      case 'credit':
        this.#streams.grant(1, message.bytes);
        return;
      case 'end':
        this.#streams.ended(1);
        return;
      case 'reset':
        if (message.only === 'input') this.#streams.inputStopped(1);
        else this.#streams.reset(1, message.code, message.message);
        return;
      case 'moved':
        this.#fail(new CallError('moved', 'The agent is connected to another replica'));
    }
  }

  #data(frame: Uint8Array): void {
    const data = decodeData(frame);
    if (data === undefined || this.#streams.data(data) === 'excess')
      this.#fail(unreachable(new Error('Not of the protocol')));
  }

  #fail(error: CallError): void {
    this.#result.reject(error);
    this.#streams.close(error);
  }

  #send(message: ToHolder): void {
    this.#outbox.push(JSON.stringify(message));
  }
}

function unreachable(cause: unknown): CallError {
  return new CallError('away', 'The replica that holds the agent cannot be reached', { cause });
}

function parse(frame: string): FromHolder | undefined {
  try {
    return FromHolder.parse(JSON.parse(frame));
  } catch {
    return undefined; // the caller ends the link
  }
}
