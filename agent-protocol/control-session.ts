import { randomBytes } from 'node:crypto';
import { asks } from './asked.ts';
import { CallError, sendableError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';
import { decodeAgentFrame, encodeMessage } from './codec.ts';
import type { Data } from './data-frame.ts';
import type { LogsToKeep } from './logs.ts';
import { AskParams, protocols } from './messages.ts';
import type {
  AgentMessage,
  CallParams,
  ControlMessage,
  EngineState,
  Load,
  StreamParams,
  UpdateFailure,
} from './messages.ts';
import { every } from '../time/every.ts';
import { OpenCalls } from './open-calls.ts';
import { OpenedStreams } from './opened-streams.ts';
import { Outbox } from './outbox.ts';
import { isProof } from './proof.ts';
import type { RegistryAccess } from './registry-access.ts';
import type { ServerSettings } from './server-settings.ts';
import { bounds, timing } from './timing.ts';
import { closeCodes } from './wire.ts';
import type { Frame, Wire } from './wire.ts';

/** Why the connection of an agent that sends more than `bounds.messagesPer10s` ends. */
const flood = 'Too many messages';

type State = 'hello' | 'greeting' | 'proof' | 'entering' | 'up' | 'ended';
type FromAgent<T extends AgentMessage['type']> = Extract<AgentMessage, { type: T }>;
type FromControl<T extends ControlMessage['type']> = Extract<ControlMessage, { type: T }>;
export type Hello = FromAgent<'hello'>;
export type Report = FromAgent<'report'>;
export type Welcome = Omit<FromControl<'welcome'>, 'type' | 'protocol' | 'beat_ms'>;
export type Refusal = Omit<FromControl<'refuse'>, 'type'>;
export type Rejection = FromControl<'report_ack'>['rejected'][number];

/**
 * Most messages with which an agent answers: a result; the acceptance of a stream, its end, that of its input, and the
 * frame that was on its way when the reader left.
 */
const answersOf = { call: 1, stream: 4 } as const;

/** The control plane's part in a session. An error that one of these throws ends the session as `failed`. */
export interface ControlHost {
  /** Returns the Ed25519 key (raw, base64url) that the agent must prove to hold, or a refusal. */
  hello(hello: Hello): Promise<{ refuse: Refusal } | { publicKey: string }>;
  /** The agent proved its key: this becomes the session of its server. */
  enter(hello: Hello): Promise<{ refuse: Refusal } | { welcome: Welcome }>;
  /** The agent was welcomed. */
  up(): void;
  /** Stores the report and returns the items that were not stored. The session passes reports one at a time. */
  report(report: Report): Promise<Rejection[]>;
  applied(revision: number): void;
  needSnapshot(why: string): void;
  /** A beat came. `roundTripMs`: how long the agent waited for the answer to an earlier one. */
  loaded(load: Load, roundTripMs?: number): void;
  /** The state of the agent's container engine and why its update failed, if it did, from every beat. */
  state(engine: EngineState, update: UpdateFailure | undefined): void;
  /** Answers a question of the agent. @throws CallError with a code and a message for the log of the task */
  ask(params: AskParams, signal: AbortSignal): Promise<unknown>;
  /** `isOrderly`: one side said goodbye, or refused. Otherwise the connection was lost. */
  ended(why: string, isOrderly: boolean): void;
}

/**
 * The control plane's end of one agent's connection. It knows no transport: frames come in by `receive` and leave by
 * the wire.
 *
 * States: hello → proof → entering → up → ended. The form and the rate of all messages from the agent are checked; an
 * agent cannot make this end hold more than its bounds. Silence of three beats ends the session.
 */
export class ControlSession {
  #wire: Wire;
  #clock: Clock;
  #host: ControlHost;
  #state: State = 'hello';
  #outbox: Outbox;
  #streams: OpenedStreams<StreamParams>;
  #calls: OpenCalls<CallParams>;
  /** Questions of the agent that are being answered. */
  #asked = new Map<number, AbortController>();
  #reporting: Promise<void> = Promise.resolve();
  #reportsWaiting = 0;
  #heardAt: number;
  #window = { since: 0, messages: 0 };
  /** Bytes of messages that came before the welcome. */
  #openingBytes = 0;
  /** Messages that answer what was asked of the agent, and that it may still send without being counted. */
  #due = 0;
  #cleanup: (() => void)[] = [];
  /** Messages of desired sets that are being sent, in order. */
  #desired: Iterator<ControlMessage>[] = [];
  /** Bytes of desired sets sent since other sessions last had their turn. */
  #turnBytes = 0;
  #resting: (() => void) | undefined;
  #isTurnOfStreams = false;
  #greeting: { hello: Hello; publicKey: string; nonce: string; protocol: number } | undefined;

  constructor(wire: Wire, clock: Clock, host: ControlHost) {
    this.#wire = wire;
    this.#clock = clock;
    this.#host = host;
    this.#heardAt = clock.monotonic();
    this.#outbox = new Outbox(wire, {
      nextFrame: () => this.#nextFrame(),
      overflow: () => this.close('Reads too slowly'),
    });
    this.#streams = new OpenedStreams<StreamParams>(
      {
        open: (stream, params, credit, duplex) => {
          this.#expect(answersOf.stream);
          this.#send({ type: 'stream.open', stream, params, credit, ...(duplex && { duplex }) });
        },
        credit: (stream, bytes) => this.#send({ type: 'stream.credit', stream, bytes }),
        end: (stream) => this.#send({ type: 'stream.end', stream }),
        resetInput: (stream, code, message) =>
          this.#send({ type: 'stream.reset', stream, code, message, only: 'input' }),
      },
      clock,
      { wake: () => this.#outbox.pump() },
    );
    this.#calls = new OpenCalls<CallParams>(
      {
        call: (call) => {
          this.#expect(answersOf.call);
          this.#send({ type: 'call', ...call });
        },
        cancel: (id) => this.#knows('calls.cancel') && this.#send({ type: 'call.cancel', id }),
      },
      clock,
      'server',
    );
    this.#cleanup.push(
      clock.timer(timing.handshakeMs, () => this.#state !== 'up' && this.close('Handshake took too long')),
    );
  }

  get isUp(): boolean {
    return this.#state === 'up';
  }

  receive(frame: Frame): void {
    if (this.#state === 'ended') return;
    this.#heardAt = this.#clock.monotonic();
    try {
      this.#take(frame);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** The agent sent a ping or a pong of the WebSocket protocol. */
  pinged(): void {
    if (this.#state !== 'ended' && this.#floods()) this.close(flood);
  }

  /** The socket has written out its buffer. */
  drained(): void {
    this.#outbox.pump();
  }

  /** The connection is gone. */
  closed(why: string): void {
    this.#end(why);
  }

  /** Refuses the agent instead of a welcome. */
  refuse(refusal: Refusal): void {
    if (this.#state === 'ended') return;
    this.#outbox.last(encodeMessage({ type: 'refuse', ...refusal }));
    this.close(`Refused: ${refusal.code}`, closeCodes.normal);
  }

  /** Sends a goodbye and ends the session. The agent connects again within `retryAfterMs`. */
  goodbye(reason: string, retryAfterMs?: number): void {
    if (this.#state === 'ended') return;
    const retry = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs };
    this.#outbox.last(encodeMessage({ type: 'goodbye', reason, ...retry }));
    this.close(reason, closeCodes.goingAway);
  }

  close(why: string, code: number = closeCodes.policy): void {
    if (this.#state === 'ended') return;
    this.#end(why, code === closeCodes.normal || code === closeCodes.goingAway);
    this.#wire.close(code, why.slice(0, 120));
  }

  /** Sends messages that replace the agent's desired set. Each is made when the socket has room for it. */
  snapshot(messages: Iterable<ControlMessage>): void {
    this.#desired = [];
    this.delta(messages);
  }

  /** Sends messages that change the agent's desired set, after the messages that are being sent. */
  delta(messages: Iterable<ControlMessage>): void {
    if (this.#state === 'ended') return;
    this.#desired.push(messages[Symbol.iterator]());
    this.#outbox.pump();
  }

  /** Sends `images.keep`. The agent must have the capability of that name. */
  keepImages(images: Record<string, string[]>, whole: boolean): void {
    this.#send({ type: 'images.keep', whole, images });
  }

  /** Sends `logs.keep`. The agent must have the capability of that name. */
  keepLogs(keep: LogsToKeep): void {
    this.#send({ type: 'logs.keep', ...keep });
  }

  /** Sends `registry.access`. The agent must have the capability of that name. */
  registryAccess(workloads: Record<string, RegistryAccess | null>, whole: boolean): void {
    this.#send({ type: 'registry.access', whole, workloads });
  }

  settings({ logRetentionDays, ports, registries, update }: ServerSettings): void {
    this.#send({
      type: 'settings',
      log_retention_days: logRetentionDays,
      ports,
      ...(registries !== undefined && { registries: [...registries] }),
      ...(update !== undefined && { update: { version: update.version, requested_at: update.requestedAt } }),
    });
  }

  /** See {@link OpenCalls.call}. */
  async call(params: CallParams, timeoutMs: number, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted();
    if (this.#state !== 'up') throw away();
    return this.#calls.call(params, timeoutMs, signal);
  }

  /** Opens a stream from the agent. See {@link OpenedStreams.open}. */
  async *stream(params: StreamParams, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#state !== 'up') throw away();
    yield* this.#streams.open(params, undefined, signal);
  }

  /**
   * Opens a stream in both directions. See {@link OpenedStreams.open}.
   *
   * @throws CallError `unsupported` if the agent's release does not know such streams
   */
  async *duplex(
    params: StreamParams,
    outgoing: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#state !== 'up') throw away();
    if (!this.#knows('streams.duplex'))
      throw new CallError('unsupported', 'The agent of the server is of an earlier release: upgrade the agent');
    yield* this.#streams.open(params, outgoing, signal);
  }

  #knows(capability: string): boolean {
    return this.#greeting?.hello.capabilities.includes(capability) === true;
  }

  #take(frame: Frame): void {
    // Before it is parsed: the sender may be a stranger.
    if (this.#state !== 'up' && (this.#openingBytes += frame.length) > bounds.openingBytes) {
      this.close('Sent too much before the welcome');
      return;
    }
    const decoded = decodeAgentFrame(frame);
    switch (decoded.kind) {
      case 'data':
        this.#bytes(decoded.data);
        return;
      case 'malformed':
        this.close(decoded.reason, closeCodes.protocol);
        return;
      case 'message':
      case 'unknown': {
        // Credit that is due counts as little as the bytes that it answers.
        if (decoded.kind === 'message' && this.#isCreditDue(decoded.message)) return;
        const isDue = decoded.kind === 'message' && isAnswer(decoded.message) && this.#takesDue();
        if (!isDue && this.#floods()) this.close(flood);
        else if (decoded.kind === 'unknown') this.#send({ type: 'unsupported', what: decoded.type.slice(0, 100) });
        else this.#handle(decoded.message);
      }
    }
  }

  #bytes(data: Data): void {
    if (this.#state !== 'up') {
      this.close(`Did not expect bytes in state ${this.#state}`, closeCodes.protocol);
      return;
    }
    const taking = this.#streams.data(data);
    if (taking === 'excess') this.close('Sent more than it was granted', closeCodes.protocol);
    else if (taking === 'dropped' && !this.#takesDue() && this.#floods()) this.close(flood);
  }

  #handle(message: AgentMessage): void {
    if (message.type === 'goodbye') this.close(message.reason, closeCodes.normal);
    else if (message.type === 'unsupported') return;
    else if (this.#state === 'up') this.#serve(message);
    else if (this.#state === 'hello' && message.type === 'hello') void this.#guarded(this.#greet(message));
    else if (this.#state === 'proof' && message.type === 'proof') void this.#guarded(this.#prove(message.signature));
    else this.close(`Did not expect ${message.type} in state ${this.#state}`, closeCodes.protocol);
  }

  async #greet(hello: Hello): Promise<void> {
    this.#state = 'greeting';
    const protocol = protocols.findLast((it) => hello.protocols.includes(it));
    if (protocol === undefined) {
      const message = `The agent speaks protocols ${hello.protocols.join(', ')}, this control plane ${protocols.join(', ')}: upgrade the older one`;
      this.refuse({ code: 'upgrade', message, retry_after_ms: 5 * 60_000 });
      return;
    }
    const answer = await this.#host.hello(hello);
    if (!this.#isIn('greeting')) return;
    if ('refuse' in answer) {
      this.refuse(answer.refuse);
      return;
    }
    const nonce = randomBytes(32).toString('base64url');
    this.#greeting = { hello, publicKey: answer.publicKey, nonce, protocol };
    this.#state = 'proof';
    this.#send({ type: 'challenge', nonce });
  }

  async #prove(signature: string): Promise<void> {
    const greeting = this.#greeting;
    if (greeting === undefined) return;
    const { hello, publicKey, nonce, protocol } = greeting;
    if (!isProof(publicKey, hello.server_id, nonce, signature)) {
      this.refuse({
        code: 'unauthorized',
        message: 'The agent did not prove that it has the registered key of the server',
        retry_after_ms: 60_000,
      });
      return;
    }
    this.#state = 'entering';
    const answer = await this.#host.enter(hello);
    if (!this.#isIn('entering')) return;
    if ('refuse' in answer) {
      this.refuse(answer.refuse);
      return;
    }
    this.#state = 'up';
    this.#send({ type: 'welcome', protocol, beat_ms: timing.beatMs, ...answer.welcome });
    this.#heardAt = this.#clock.monotonic();
    this.#cleanup.push(every(this.#clock, timing.beatMs, () => this.#watch()));
    this.#cleanup.push(
      every(this.#clock, timing.liveMs, () => this.#send({ type: 'stream.live', streams: this.#streams.ids })),
    );
    this.#host.up();
  }

  #serve(message: AgentMessage): void {
    switch (message.type) {
      case 'report':
        this.#report(message);
        return;
      case 'beat':
        this.#outbox.urgent(encodeMessage({ type: 'beat_ack', n: message.n }));
        this.#host.loaded(message.load, message.round_trip_ms);
        if (message.engine !== undefined) this.#host.state(message.engine, message.update);
        return;
      case 'applied':
        this.#host.applied(message.revision);
        return;
      case 'need_snapshot':
        this.#host.needSnapshot(message.why);
        return;
      case 'result':
        this.#calls.answered(message);
        return;
      case 'ask':
        void this.#answer(message);
        return;
      case 'stream.accept':
        this.#streams.accepted(message.stream, message.credit);
        return;
      case 'stream.end':
        this.#streams.ended(message.stream);
        return;
      case 'stream.reset':
        if (message.only === 'input') this.#streams.inputStopped(message.stream);
        else this.#streams.reset(message.stream, message.code, message.message);
        return;
      case 'stream.live':
        for (const stream of this.#streams.unknown(message.streams))
          this.#send({ type: 'stream.reset', stream, code: 'stopped', message: 'The stream has no reader' });
        return;
      case 'stream.credit':
      case 'unsupported':
        return;
      case 'hello':
      case 'proof':
      case 'goodbye':
        this.close(`Did not expect ${message.type} after the welcome`, closeCodes.protocol);
    }
  }

  async #answer({ id, params }: FromAgent<'ask'>): Promise<void> {
    if (this.#asked.has(id)) return;
    const asked = asks(AskParams, 'about', params, 'control plane');
    if ('problem' in asked) {
      this.#send({ type: 'answer', id, error: asked.problem });
      return;
    }
    if (this.#asked.size >= bounds.calls) {
      const message = `At most ${bounds.calls} questions at once`;
      this.#send({ type: 'answer', id, error: { code: 'too_many', message } });
      return;
    }
    const abort = new AbortController();
    this.#asked.set(id, abort);
    const cancel = this.#clock.timer(timing.askMs, () => abort.abort(new CallError('timeout', 'Took too long')));
    try {
      this.#send({ type: 'answer', id, ok: await this.#host.ask(asked.params, abort.signal) });
    } catch (error) {
      this.#send({ type: 'answer', id, error: sendableError(abort.signal.aborted ? abort.signal.reason : error) });
    } finally {
      cancel();
      this.#asked.delete(id);
    }
  }

  #report(report: Report): void {
    if (this.#reportsWaiting >= 2) {
      this.close('Reports without waiting for their acknowledgement', closeCodes.policy);
      return;
    }
    this.#reportsWaiting++;
    this.#reporting = this.#reporting.then(() => this.#guarded(this.#intake(report)));
  }

  async #intake(report: Report): Promise<void> {
    try {
      const rejected = this.isUp ? await this.#host.report(report) : [];
      this.#send({ type: 'report_ack', seq: report.seq, rejected });
    } finally {
      this.#reportsWaiting--;
    }
  }

  async #guarded(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#failed(error);
    }
  }

  /** The host failed. The text of its error is not sent to the agent. */
  #failed(error: unknown): void {
    this.#end(`Failed: ${error instanceof Error ? error.message : String(error)}`);
    this.#wire.close(closeCodes.failed, 'Internal error');
  }

  #watch(): void {
    if (this.#clock.monotonic() - this.#heardAt > timing.missedBeats * timing.beatMs) this.close('Agent is silent');
  }

  #isIn(state: State): boolean {
    return this.#state === state;
  }

  /** Takes in a message of credit; true if it answers bytes that were sent. */
  #isCreditDue(message: AgentMessage): boolean {
    if (message.type !== 'stream.credit' || this.#state !== 'up') return false;
    return this.#streams.grant(message.stream, message.bytes);
  }

  /** The agent was asked for something. What it does not send in the end adds up to one window at most. */
  #expect(answers: number): void {
    this.#due = Math.min(bounds.messagesPer10s, this.#due + answers);
  }

  /** Takes one of the answers that are due; false if there is none. */
  #takesDue(): boolean {
    if (this.#due === 0) return false;
    this.#due -= 1;
    return true;
  }

  #floods(): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#window.since > 10_000) this.#window = { since: now, messages: 0 };
    return ++this.#window.messages > bounds.messagesPer10s;
  }

  /** Frames of streams and of desired sets take turns. */
  #nextFrame(): Frame | undefined {
    this.#isTurnOfStreams = !this.#isTurnOfStreams;
    return this.#isTurnOfStreams
      ? (this.#streams.next() ?? this.#nextDesired())
      : (this.#nextDesired() ?? this.#streams.next());
  }

  /** The next frame of a desired set. Pauses after `gateBytes`: a fast reader must not keep other sessions waiting. */
  #nextDesired(): Frame | undefined {
    if (this.#desired.length === 0 || this.#resting !== undefined) return undefined;
    if (this.#turnBytes > bounds.gateBytes) {
      this.#resting = this.#clock.timer(0, () => {
        this.#resting = undefined;
        this.#turnBytes = 0;
        this.#outbox.pump();
      });
      return undefined;
    }
    try {
      const frame = this.#makeDesired();
      this.#turnBytes += frame?.length ?? 0;
      return frame;
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }

  #makeDesired(): string | undefined {
    for (;;) {
      const [messages] = this.#desired;
      if (messages === undefined) return undefined;
      const { done, value } = messages.next();
      if (done !== true) return encodeMessage(value);
      if (this.#desired[0] === messages) this.#desired.shift();
    }
  }

  #send(message: ControlMessage): void {
    if (this.#state !== 'ended') this.#outbox.push(encodeMessage(message));
  }

  #end(why: string, isOrderly = false): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    for (const stop of this.#cleanup) stop();
    this.#outbox.close();
    this.#desired = [];
    this.#resting?.();
    this.#streams.close(away());
    this.#calls.close(away());
    for (const abort of this.#asked.values()) abort.abort(away());
    this.#host.ended(why, isOrderly);
  }
}

/** Whether it is of a kind that answers a call or a stream. */
function isAnswer({ type }: AgentMessage): boolean {
  return type === 'result' || type === 'stream.accept' || type === 'stream.end' || type === 'stream.reset';
}

function away(): CallError {
  return new CallError(
    'away',
    'The agent of the server is not connected: check that the machine is up and runs its agent',
  );
}
