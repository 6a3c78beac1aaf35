import { unlessAborted } from '../../../time/unless-aborted.ts';
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import type { Clock } from '../../../time/clock.ts';
import { RuntimeFailure } from '../runtime.ts';
import { EngineError, shortMs, Transport, type EngineRequest } from './transport.ts';

/** API version of engine 20.10. */
const oldest = [1, 41] as const;
/** API version of engine 25; engines up to 29 still support it. */
const newest = [1, 44] as const;

export interface EngineCall {
  method: EngineRequest['method'];
  /** Segments of the path after the API version; each is encoded. */
  path: readonly string[];
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  body?: EngineRequest['body'];
  upgrade?: EngineRequest['upgrade'];
  headers?: NonNullable<EngineRequest['headers']>;
  /** 30 s by default. */
  timeoutMs?: number;
}

const Version = z.object({ Version: z.string(), ApiVersion: z.string(), MinAPIVersion: z.string().optional() });

/** The Docker Engine API in the newest version that both sides speak. */
export class Engine {
  readonly #transport: Transport;
  #prefix: Promise<string> | undefined;

  constructor(socketPath: string, clock: Clock) {
    this.#transport = new Transport(socketPath, clock);
  }

  /** Asks for the engine's own version, and negotiates the API version again. */
  async version(signal: AbortSignal): Promise<string> {
    this.#prefix = undefined;
    const answer = Version.parse(await this.call({ method: 'GET', path: ['version'] }, signal));
    return answer.Version;
  }

  /** Returns the parsed JSON answer. @throws EngineError, RuntimeFailure */
  async call(call: EngineCall, signal: AbortSignal): Promise<unknown> {
    return this.#with(call, signal, (request) => this.#transport.call(request, signal));
  }

  /** Returns the bytes of the answer as they come. @throws EngineError, RuntimeFailure */
  async open(call: EngineCall, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    return this.#with(call, signal, (request) => this.#transport.open(request, signal));
  }

  /** Returns the connection as raw bytes in both directions. @throws EngineError, RuntimeFailure */
  async hijack(call: EngineCall, signal: AbortSignal): Promise<Duplex> {
    return this.#with(call, signal, (request) => this.#transport.hijack(request, signal));
  }

  close(): void {
    this.#transport.close();
  }

  async #with<T>(call: EngineCall, signal: AbortSignal, send: (request: EngineRequest) => Promise<T>): Promise<T> {
    this.#prefix ??= this.#negotiate();
    try {
      return await send(encode(await unlessAborted(this.#prefix, signal), call));
    } catch (error) {
      // The engine may have another version when it answers again.
      if (!(error instanceof EngineError)) this.#prefix = undefined;
      throw error;
    }
  }

  /** Shared by all callers that wait for it, so that only its own deadline ends it. */
  async #negotiate(): Promise<string> {
    const request: EngineRequest = { method: 'GET', path: '/version', timeoutMs: shortMs };
    const answer = Version.parse(await this.#transport.call(request, new AbortController().signal));
    const theirs = parse(answer.ApiVersion);
    const chosen = older(theirs, newest) ? theirs : newest;
    const floor = answer.MinAPIVersion === undefined ? oldest : parse(answer.MinAPIVersion);
    if (older(chosen, oldest) || older(chosen, floor)) {
      throw new RuntimeFailure(
        'runtime_unavailable',
        `The container engine speaks API ${answer.MinAPIVersion ?? '?'} to ${answer.ApiVersion}, this agent ${oldest.join('.')} to ${newest.join('.')}`,
        { retryable: false },
      );
    }
    return `/v${chosen.join('.')}`;
  }
}

/** Ids, names and image references, without `..`: the engine resolves dots in a path even if they are encoded. */
const segment = /^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_.:@/[\]-]*$/;

function encode(prefix: string, call: EngineCall): EngineRequest {
  const strange = call.path.find((one) => !segment.test(one));
  if (strange !== undefined)
    throw new EngineError(404, `nothing can be named ${JSON.stringify(strange.slice(0, 100))}`);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) if (value !== undefined) query.set(name, `${value}`);
  const path = `${prefix}/${call.path.map(encodeURIComponent).join('/')}`;
  return {
    method: call.method,
    path: query.size === 0 ? path : `${path}?${query.toString()}`,
    timeoutMs: call.timeoutMs ?? shortMs,
    ...(call.body === undefined ? {} : { body: call.body }),
    ...(call.upgrade === undefined ? {} : { upgrade: call.upgrade }),
    ...(call.headers === undefined ? {} : { headers: call.headers }),
  };
}

type ApiVersion = readonly [major: number, minor: number];

function parse(text: string): ApiVersion {
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return [major, minor];
}

function older(a: ApiVersion, b: ApiVersion): boolean {
  return a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]);
}
