import type { Agent as HttpAgent, IncomingMessage } from 'node:http';
import { Readable, type Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../../time/clock.ts';
import { Agent, request } from '../../../agent-protocol/node-http.ts';
import { RuntimeFailure } from '../runtime.ts';

/** Deadline of calls that only read or make a small change. */
export const shortMs = 30_000;

/** Longest answer of the engine that is read into memory. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** Most characters of the engine's reason for a failure, which can have the answer of a registry. */
const maxReasonChars = 2000;

export interface EngineRequest {
  method: 'GET' | 'POST' | 'DELETE';
  /** Path and query, already encoded. */
  path: string;
  /** Sent as JSON; a stream is sent as a tar archive. */
  body?: object | AsyncIterable<Uint8Array>;
  /** For {@link Transport.hijack}: the protocol to switch to, `tcp` if absent, with headers that it needs. */
  upgrade?: { protocol: string; headers: Readonly<Record<string, string | string[]>> };
  /** Beside those of every call. Never logged. */
  headers?: Readonly<Record<string, string>>;
  /** Deadline for the headers of the answer, and for {@link Transport.call} also for its body. */
  timeoutMs: number;
}

/** The engine answered with a failure; `reason` is the engine's own text. */
export class EngineError extends RuntimeFailure {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string) {
    super('runtime_unavailable', `The container engine answered ${status}: ${reason}`, { retryable: true });
    this.name = 'EngineError';
    this.status = status;
    this.reason = reason;
  }
}

/**
 * HTTP over the engine's socket, kept alive between calls. Every call ends by its own deadline or by the caller's
 * signal, whose reason it then throws.
 */
export class Transport {
  readonly #socketPath: string;
  readonly #clock: Clock;
  readonly #calls = new Agent({ keepAlive: true, maxSockets: 64 });
  /**
   * For calls with a deadline above {@link shortMs}, such as the end of an instance, which the engine answers only once it
   * has ended: at most one for each instance. No call with a short deadline waits behind them for a socket.
   */
  readonly #longCalls = new Agent({ keepAlive: true });
  readonly #streams = new Agent({ keepAlive: false });

  constructor(socketPath: string, clock: Clock) {
    this.#socketPath = socketPath;
    this.#clock = clock;
  }

  /**
   * Returns the parsed JSON answer; `undefined` if it has no content.
   * @throws EngineError for a status other than success and 304; RuntimeFailure `runtime_unavailable` if there is no
   * answer
   */
  async call(what: EngineRequest, signal: AbortSignal): Promise<unknown> {
    using limit = this.#deadline(what, signal);
    const agent = what.timeoutMs > shortMs ? this.#longCalls : this.#calls;
    const answer = await this.#send(what, agent, limit.signal);
    const text = await readText(this.#read(answer, limit.signal));
    return text === '' ? undefined : JSON.parse(text);
  }

  /**
   * Returns the bytes of an answer as they come, until the engine ends them or `signal` aborts. The deadline applies
   * only to its headers. A caller that does not iterate must abort the signal.
   */
  async open(what: EngineRequest, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    using limit = this.#deadline(what, signal);
    return this.#read(await this.#send(what, this.#streams, limit.signal), signal);
  }

  /**
   * Returns the connection as raw bytes in both directions, after the engine has switched it to that. The deadline
   * applies to the switch only; the caller destroys the connection. @throws as {@link Transport.call}
   */
  async hijack(what: EngineRequest, signal: AbortSignal): Promise<Duplex> {
    using limit = this.#deadline(what, signal);
    limit.signal.throwIfAborted();
    const json = JSON.stringify(what.body ?? {});
    const { promise, resolve, reject } = Promise.withResolvers<{ switched: Duplex } | { refused: IncomingMessage }>();
    const outgoing = request({
      socketPath: this.#socketPath,
      method: what.method,
      path: what.path,
      agent: this.#streams,
      headers: {
        host: 'engine',
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(json),
        ...what.upgrade?.headers,
        connection: 'Upgrade',
        upgrade: what.upgrade?.protocol ?? 'tcp',
      },
    });
    const free = destroyOn(outgoing, limit.signal);
    outgoing.once('upgrade', (_answer, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      resolve({ switched: socket });
    });
    outgoing.once('response', (answer) => resolve({ refused: answer }));
    outgoing.on('error', reject);
    outgoing.end(json);
    try {
      const answer = await promise;
      if ('switched' in answer) return answer.switched;
      throw await this.#failure(answer.refused, limit.signal);
    } catch (error) {
      return this.#fail(error, limit.signal);
    } finally {
      free();
    }
  }

  close(): void {
    this.#calls.destroy();
    this.#longCalls.destroy();
    this.#streams.destroy();
  }

  #deadline(what: EngineRequest, signal: AbortSignal): { signal: AbortSignal } & Disposable {
    const late = new AbortController();
    const cancel = this.#clock.timer(what.timeoutMs, () => {
      late.abort(unavailable(`The container engine did not answer within ${what.timeoutMs / 1000} s`));
    });
    return { signal: AbortSignal.any([signal, late.signal]), [Symbol.dispose]: cancel };
  }

  async #send(what: EngineRequest, agent: HttpAgent, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const answer = await this.#exchange(what, agent, signal).catch((error: unknown) => this.#fail(error, signal));
    const status = answer.statusCode ?? 0;
    // A redirect counts as a failure: the engine sends one only for paths that no caller uses.
    if (status < 300 || status === 304) return answer;
    throw await this.#failure(answer, signal);
  }

  async #failure(answer: IncomingMessage, signal: AbortSignal): Promise<EngineError> {
    const text = await readText(this.#read(answer, signal));
    return new EngineError(answer.statusCode ?? 0, (engineMessage(text) ?? 'no reason given').slice(0, maxReasonChars));
  }

  #exchange(
    { method, path, body, headers: more }: EngineRequest,
    agent: HttpAgent,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const stream = body !== undefined && Symbol.asyncIterator in body ? body : undefined;
    const json = body === undefined || stream ? '' : JSON.stringify(body);
    const headers = stream
      ? { host: 'engine', 'content-type': 'application/x-tar' }
      : { host: 'engine', 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) };
    return new Promise((resolve, reject) => {
      const outgoing = request({ socketPath: this.#socketPath, method, path, agent, headers: { ...headers, ...more } });
      const free = destroyOn(outgoing, signal);
      outgoing.once('response', (answer) => {
        free();
        resolve(answer);
      });
      outgoing.on('error', reject);
      if (!stream) outgoing.end(json);
      // An engine that refuses early closes the request during the upload; its answer has the reason.
      else
        pipeline(Readable.from(stream), outgoing).catch((e: unknown) =>
          outgoing.once('close', () => reject(e as Error)),
        );
    });
  }

  async *#read(answer: IncomingMessage, signal: AbortSignal): AsyncGenerator<Buffer> {
    const free = destroyOn(answer, signal);
    try {
      for await (const chunk of answer) yield chunk as Buffer; // no encoding is set
    } catch (error) {
      this.#fail(error, signal);
    } finally {
      free();
    }
  }

  #fail(error: unknown, signal: AbortSignal): never {
    if (signal.aborted) throw signal.reason;
    if (!isConnectionLoss(error)) throw error;
    throw unavailable(`The container engine does not answer at ${this.#socketPath}`, { cause: error });
  }
}

/** Destroys `stream` with the signal's reason when it aborts. Returns a function that cancels this. */
function destroyOn(stream: { destroy(error?: Error): unknown }, signal: AbortSignal): () => void {
  const abort = (): void => void stream.destroy(signal.reason as Error); // all callers abort with errors
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return () => signal.removeEventListener('abort', abort);
}

/** Returns a retryable RuntimeFailure `runtime_unavailable`. */
export function unavailable(message: string, options: ErrorOptions = {}): RuntimeFailure {
  return new RuntimeFailure('runtime_unavailable', message, { ...options, retryable: true });
}

async function readText(answer: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer) {
    size += chunk.length;
    if (size > maxAnswerBytes) throw unavailable(`An answer of the container engine is above ${maxAnswerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function engineMessage(text: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer === 'object' && answer !== null && 'message' in answer) return String(answer.message);
  } catch {
    // Not JSON: the answer of a proxy or a very old engine, which is not for users.
  }
  return undefined;
}

const losses = new Set([
  'ENOENT',
  'ECONNREFUSED',
  'EACCES',
  'ECONNRESET',
  'EPIPE',
  'EAGAIN',
  'ERR_STREAM_PREMATURE_CLOSE',
]);

function isConnectionLoss(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && losses.has(error.code);
}
