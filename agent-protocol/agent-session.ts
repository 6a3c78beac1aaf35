import { randomBytes } from 'node:crypto';
import type { AgentHost } from './agent-host.ts';
import { asks } from './asked.ts';
import { CallError, sendableError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';
import { judgeControl } from './control-proof.ts';
import type { Verdict } from './control-proof.ts';
import { decodeControlFrame, encodeMessage } from './codec.ts';
import { CallParams, StreamParams } from './messages.ts';
import type { AgentMessage, AskParams, ControlMessage, Hello } from './messages.ts';
import { DesiredChain } from './desired-chain.ts';
import { every } from '../time/every.ts';
import { OpenCalls } from './open-calls.ts';
import { Outbox } from './outbox.ts';
import { proofBytes } from './proof.ts';
import { ReportPump } from './report-pump.ts';
import { settingsOf } from './server-settings.ts';
import { ServedStreams } from './served-streams.ts';
import { bounds, timing } from './timing.ts';
import { closeCodes } from './wire.ts';
import type { Frame, Wire } from './wire.ts';
import type { z } from 'zod';

type MessageOf<T extends ControlMessage['type']> = Extract<ControlMessage, { type: T }>;
type StreamMessage = Extract<ControlMessage, { type: `stream.${string}` }>;
type CallMessage = Extract<ControlMessage, { type: 'call' | 'call.cancel' }>;

/** How a session ended. */
export type AgentEnd =
  | { kind: 'refused'; code: MessageOf<'refuse'>['code']; message: string; retryAfterMs: number }
  /** The control plane sent a goodbye, for example for a drain or because another agent took over. */
  | { kind: 'goodbye'; reason: string; retryAfterMs: number | undefined }
  /** The peer is not the control plane that this agent knows. Nothing that it sent was used. */
  | { kind: 'impostor'; why: string }
  | { kind: 'lost'; why: string };

export interface AgentSessionOptions {
  wire: Wire;
  clock: Clock;
  host: AgentHost;
  hello: Omit<z.infer<typeof Hello>, 'type' | 'store' | 'engine' | 'update' | 'control'>;
  /** Hash of the control plane's key, see `hashControlKey`; `undefined`: no key is known yet. */
  controlKeyHash: string | undefined;
  /** Ed25519 signature, base64url. */
  sign: (bytes: Uint8Array) => string;
  welcomed: (welcome: MessageOf<'welcome'>, verdict: Exclude<Verdict, { kind: 'impostor' }>) => void;
  /** The host failed. A desired set that it could not store is requested again; any other error ends the session. */
  fault: (error: unknown) => void;
  ended: (end: AgentEnd) => void;
}

/**
 * The agent's end of one connection. It knows no transport: frames come in by `receive` and leave by the wire.
 *
 * States: opening (hello sent, challenge answered) → up (welcome) → ended. It ends once: by a refusal, a goodbye, a
 * welcome of an impostor, or the loss of the connection. Silence of three beats and a breach of the protocol count as a
 * loss.
 */
export class AgentSession {
  #options: AgentSessionOptions;
  #state: 'opening' | 'up' | 'ended' = 'opening';
  #outbox: Outbox;
  #streams: ServedStreams;
  #reports: ReportPump;
  #desired: DesiredChain;
  #calls = new Map<number, AbortController>();
  #questions: OpenCalls<AskParams>;
  #cleanup: (() => void)[] = [];
  #heardAt: number;
  #beats = 0;
  #beatAt = 0;
  #roundTripMs: number | undefined;
  readonly #asked: NonNullable<z.infer<typeof Hello>['control']>;

  constructor(options: AgentSessionOptions) {
    const { wire, clock, host } = options;
    this.#options = options;
    this.#asked = {
      nonce: randomBytes(32).toString('base64url'),
      ...(options.controlKeyHash !== undefined && { key_hash: options.controlKeyHash }),
    };
    this.#heardAt = clock.monotonic();
    this.#outbox = new Outbox(wire, {
      nextFrame: () => this.#streams.next(),
      overflow: () => this.#lose('Control plane reads too slowly'),
    });
    this.#streams = new ServedStreams(
      {
        accept: (stream, credit) =>
          this.#send({ type: 'stream.accept', stream, ...(credit !== undefined && { credit }) }),
        credit: (stream, bytes) => this.#send({ type: 'stream.credit', stream, bytes }),
        end: (stream) => this.#send({ type: 'stream.end', stream }),
        reset: (stream, code, message, only) =>
          this.#send({ type: 'stream.reset', stream, code, message, ...(only !== undefined && { only }) }),
      },
      () => this.#outbox.pump(),
    );
    this.#questions = new OpenCalls<AskParams>(
      { call: ({ id, params }) => this.#send({ type: 'ask', id, params }), cancel: () => undefined },
      clock,
      'control plane',
    );
    this.#reports = new ReportPump(host, clock, {
      send: (report) => this.#send(report),
      silent: () => this.#lose('Report was not acknowledged in time'),
    });
    this.#desired = new DesiredChain(host, {
      applied: (revision) => this.#send({ type: 'applied', revision }),
      needSnapshot: (why) => this.#send({ type: 'need_snapshot', why }),
      absent: (id) => this.#reports.markAbsent(id),
      failed: options.fault,
    });
  }

  /** Sends the hello. The socket must be open. */
  start(): void {
    const { hello, host, clock } = this.#options;
    this.#cleanup.push(clock.timer(timing.handshakeMs, () => this.#state === 'opening' && this.#lose('No welcome')));
    this.#send({
      type: 'hello',
      ...hello,
      store: host.position() ?? null,
      engine: host.engine(),
      ...updateOf(host),
      control: this.#asked,
    });
  }

  /**
   * Asks the control plane. Resolves with its answer.
   * @throws CallError from the control plane, or `away`, `timeout`, `too_many`; the signal's reason when aborted
   */
  async ask(params: AskParams, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted();
    if (this.#state !== 'up') throw noControl();
    return this.#questions.call(params, 2 * timing.askMs, signal);
  }

  receive(frame: Frame): void {
    if (this.#state === 'ended') return;
    this.#heardAt = this.#options.clock.monotonic();
    this.#guarded(() => this.#take(frame));
  }

  /** The socket has written out its buffer. */
  drained(): void {
    this.#outbox.pump();
  }

  /** The connection is gone. */
  closed(why: string): void {
    this.#end({ kind: 'lost', why });
  }

  /** Sends a goodbye and ends the session. */
  goodbye(reason: string): void {
    if (this.#state === 'ended') return;
    this.#outbox.last(encodeMessage({ type: 'goodbye', reason }));
    this.#end({ kind: 'lost', why: reason });
    this.#options.wire.close(closeCodes.goingAway, reason);
  }

  #take(frame: Frame): void {
    const decoded = decodeControlFrame(frame);
    switch (decoded.kind) {
      case 'message':
        this.#handle(decoded.message);
        return;
      case 'unknown':
        this.#send({ type: 'unsupported', what: decoded.type.slice(0, 100) });
        return;
      case 'data':
        if (!this.#streams.data(decoded.data)) this.#lose('Sent more than it was granted', closeCodes.protocol);
        return;
      case 'malformed':
        this.#lose(decoded.reason, closeCodes.protocol);
        return;
    }
  }

  /** A failure of the host ends the connection, not the agent. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#options.fault(error);
      this.#lose('The agent failed', closeCodes.failed);
    }
  }

  #handle(message: ControlMessage): void {
    if (message.type === 'refuse') this.#refused(message);
    else if (message.type === 'goodbye') this.#leave(message);
    else if (this.#state === 'opening') this.#open(message);
    else this.#serve(message);
  }

  #open(message: ControlMessage): void {
    switch (message.type) {
      case 'challenge':
        this.#send({
          type: 'proof',
          signature: this.#options.sign(proofBytes(this.#options.hello.server_id, message.nonce)),
        });
        return;
      case 'welcome':
        this.#welcome(message);
        return;
      default:
        this.#lose(`Did not expect ${message.type} before the welcome`, closeCodes.protocol);
    }
  }

  #welcome(message: MessageOf<'welcome'>): void {
    const { host, clock, hello, welcomed } = this.#options;
    const { nonce } = this.#asked;
    const occasion = { server: hello.server_id, nonce, session: message.session };
    const verdict = judgeControl(this.#asked, message.proof, occasion);
    if (verdict.kind === 'impostor') {
      this.#end(verdict);
      this.#options.wire.close(closeCodes.policy, verdict.why);
      return;
    }
    this.#state = 'up';
    host.trusts(verdict.kind === 'proven');
    host.configure(settingsOf(message));
    welcomed(message, verdict);
    this.#cleanup.push(every(clock, message.beat_ms, () => this.#guarded(() => this.#beat(message.beat_ms))));
    this.#cleanup.push(
      every(clock, timing.liveMs, () => this.#send({ type: 'stream.live', streams: this.#streams.ids })),
    );
    this.#heardAt = clock.monotonic();
    this.#cleanup.push(host.onReport((id) => this.#reports.mark(id)));
    this.#reports.start();
    this.#beat(message.beat_ms);
  }

  #serve(message: ControlMessage): void {
    if (isOfStream(message)) {
      this.#serveStream(message);
      return;
    }
    if (isOfCall(message)) {
      this.#serveCall(message);
      return;
    }
    switch (message.type) {
      case 'snapshot.begin':
      case 'snapshot.part':
      case 'snapshot.end':
      case 'delta':
        this.#desired.receive(message);
        return;
      case 'report_ack':
        this.#reports.acknowledge(message);
        return;
      case 'images.keep':
        this.#options.host.keepImages(message.images, message.whole);
        return;
      case 'logs.keep':
        this.#options.host.keepLogs(message);
        return;
      case 'registry.access':
        this.#options.host.registryAccess(message.workloads, message.whole);
        return;
      case 'settings':
        this.#options.host.configure(settingsOf(message));
        return;
      case 'answer':
        this.#questions.answered(message);
        return;
      case 'beat_ack':
        this.#beatAnswered(message.n);
        return;
      case 'unsupported':
        return;
      case 'challenge':
      case 'welcome':
      case 'refuse':
      case 'goodbye':
        this.#lose(`Did not expect ${message.type} after the welcome`, closeCodes.protocol);
    }
  }

  #serveStream(message: StreamMessage): void {
    switch (message.type) {
      case 'stream.open':
        this.#openStream(message);
        return;
      case 'stream.credit':
        this.#streams.grant(message.stream, message.bytes);
        return;
      case 'stream.end':
        this.#streams.stop(message.stream);
        return;
      case 'stream.reset':
        this.#resetStream(message);
        return;
      case 'stream.live':
        this.#resetUnknown(message.streams);
    }
  }

  #openStream({ stream, credit, duplex = false, params }: MessageOf<'stream.open'>): void {
    const asked = asks(StreamParams, 'kind', params, 'agent');
    if ('problem' in asked) this.#send({ type: 'stream.reset', stream, ...asked.problem });
    else
      this.#streams.open(stream, { credit, duplex }, (incoming, signal) =>
        this.#options.host.stream(asked.params, incoming, signal),
      );
  }

  #resetStream({ stream, code, message, only }: MessageOf<'stream.reset'>): void {
    if (only === 'input') this.#streams.inputFailed(stream, code, message);
    else this.#streams.stop(stream);
  }

  #resetUnknown(streams: readonly number[]): void {
    for (const stream of this.#streams.unknown(streams))
      this.#send({ type: 'stream.reset', stream, code: 'away', message: 'The agent does not know the stream' });
  }

  #serveCall(message: CallMessage): void {
    if (message.type === 'call') void this.#call(message);
    else this.#calls.get(message.id)?.abort(callerLeft);
  }

  async #call({ id, params, timeout_ms: timeoutMs }: MessageOf<'call'>): Promise<void> {
    if (this.#calls.has(id)) return;
    const asked = asks(CallParams, 'method', params, 'agent');
    if ('problem' in asked) {
      this.#send({ type: 'result', id, error: asked.problem });
      return;
    }
    if (this.#calls.size >= bounds.calls) {
      this.#send({ type: 'result', id, error: { code: 'too_many', message: `At most ${bounds.calls} calls at once` } });
      return;
    }
    const abort = new AbortController();
    this.#calls.set(id, abort);
    const cancel = this.#options.clock.timer(timeoutMs, () => abort.abort(new CallError('timeout', 'Took too long')));
    try {
      const ok = await this.#options.host.call(asked.params, abort.signal);
      if (abort.signal.reason !== callerLeft) this.#result(id, ok);
    } catch (error) {
      const cause: unknown = abort.signal.aborted ? abort.signal.reason : error;
      if (cause !== callerLeft) this.#send({ type: 'result', id, error: sendableError(cause) });
    } finally {
      cancel();
      this.#calls.delete(id);
    }
  }

  #result(id: number, ok: unknown): void {
    const frame = encodeMessage({ type: 'result', id, ok });
    if (Buffer.byteLength(frame) < bounds.resultBytes) this.#push(frame);
    else this.#send({ type: 'result', id, error: { code: 'too_large', message: 'The answer is too large' } });
  }

  #beat(beatMs: number): void {
    const { clock, host } = this.#options;
    if (clock.monotonic() - this.#heardAt > timing.missedBeats * beatMs) this.#lose('Control plane is silent');
    else if (this.#state === 'up') {
      const beat: AgentMessage = {
        type: 'beat',
        n: ++this.#beats,
        load: host.load(),
        engine: host.engine(),
        ...updateOf(host),
        ...(this.#roundTripMs !== undefined && { round_trip_ms: Math.round(this.#roundTripMs * 10) / 10 }),
      };
      this.#beatAt = clock.monotonic();
      this.#outbox.urgent(encodeMessage(beat));
    }
  }

  #beatAnswered(n: number): void {
    if (n === this.#beats) this.#roundTripMs = this.#options.clock.monotonic() - this.#beatAt;
  }

  #send(message: AgentMessage): void {
    this.#push(encodeMessage(message));
  }

  #push(frame: Frame): void {
    if (this.#state !== 'ended') this.#outbox.push(frame);
  }

  #refused({ code, message, retry_after_ms: retryAfterMs }: MessageOf<'refuse'>): void {
    this.#end({ kind: 'refused', code, message, retryAfterMs });
    this.#options.wire.close(closeCodes.normal, '');
  }

  #leave({ reason, retry_after_ms: retryAfterMs }: MessageOf<'goodbye'>): void {
    this.#end({ kind: 'goodbye', reason, retryAfterMs });
    this.#options.wire.close(closeCodes.normal, '');
  }

  #lose(why: string, code: number = closeCodes.policy): void {
    if (this.#state === 'ended') return;
    this.#end({ kind: 'lost', why });
    this.#options.wire.close(code, why.slice(0, 120));
  }

  #end(end: AgentEnd): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    for (const stop of this.#cleanup) stop();
    this.#reports.stop();
    this.#desired.stop();
    this.#outbox.close();
    this.#streams.close();
    this.#questions.close(noControl());
    for (const abort of this.#calls.values()) abort.abort(new CallError('away', 'The connection is gone'));
    this.#options.ended(end);
  }
}

/** Aborts a call that the control plane cancelled: nothing waits for its result. */
const callerLeft = new CallError('cancelled', 'The caller left');

function noControl(): CallError {
  return new CallError('away', 'The agent is not connected to the control plane');
}

function updateOf(host: AgentHost): Pick<z.infer<typeof Hello>, 'update'> {
  const update = host.updateFailure();
  return update === undefined ? {} : { update };
}

function isOfStream(message: ControlMessage): message is StreamMessage {
  return message.type.startsWith('stream.');
}

function isOfCall(message: ControlMessage): message is CallMessage {
  return message.type === 'call' || message.type === 'call.cancel';
}
