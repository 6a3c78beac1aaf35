import { setTimeout as delay } from 'node:timers/promises';
import { json } from 'node:stream/consumers';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { displayable } from '../api/streams/log-frames.ts';
import { systemClock } from '../time/clock.ts';
import type { Clock } from '../time/clock.ts';
import { every } from '../time/every.ts';

/** The control plane of a client, and its credential: `token` is a session's token or a service key. */
export interface Connection {
  /** Base URL without tenant, for example `http://127.0.0.1:7070`. */
  server: string;
  tenant: string;
  token?: string;
}

/** An object of the API; the other fields depend on its kind. */
export const ApiObject = z.looseObject({
  id: z.string(),
  name: z.string().optional(),
  status: z.string().optional(),
  created_at: z.string().optional(),
  generation: z.number().optional(),
  observed_generation: z.number().nullish(),
  conditions: z
    .array(
      z.object({
        type: z.string(),
        status: z.string(),
        reason: z.string(),
        message: z.string(),
        last_transition_at: z.string(),
      }),
    )
    .optional(),
});
export type ApiObject = z.infer<typeof ApiObject>;

const Envelope = z.discriminatedUnion('success', [
  z.object({
    success: z.literal(true),
    data: z.unknown(),
    meta: z.object({ next_cursor: z.string().nullable() }).optional(),
  }),
  z.object({
    success: z.literal(false),
    error: z.object({
      code: z.string(),
      message: z.string(),
      details: z
        .array(z.object({ field: z.string().optional(), reason: z.string().optional(), message: z.string() }))
        .optional(),
    }),
  }),
]);

/** A refusal by the server, with the server's message. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  /** The stable `reason` of each detail. */
  readonly reasons: readonly string[];

  constructor(status: number, code: string, message: string, reasons: readonly string[] = []) {
    super(message);
    this.name = 'Refused';
    this.status = status;
    this.code = code;
    this.reasons = reasons;
  }
}

/** What a request answers; `undefined` if the role of the caller does not cover it. */
export function unlessForbidden<T>(answer: Promise<T>): Promise<T | undefined> {
  return unlessRefused(answer, [403]);
}

/** The same, and `undefined` also if the object is gone. */
export function unlessGone<T>(answer: Promise<T>): Promise<T | undefined> {
  return unlessRefused(answer, [403, 404]);
}

async function unlessRefused<T>(answer: Promise<T>, statuses: readonly number[]): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Refused && statuses.includes(error.status)) return undefined;
    throw error;
  }
}

/** No answer of the control plane came, as the connection was lost or it is being started; it may come later. */
export class NoAnswer extends Error {}

/** A stream that broke after it was open; it can be opened again. */
export class StreamCut extends Error {}

export interface Client {
  readonly connection: Connection;
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<unknown>;
  object(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiObject>;
  /** Sends a file as a form, however long that takes. */
  upload(path: string, file: string): Promise<ApiObject>;
  /** Returns the objects of all pages. */
  list(path: string, query?: Record<string, string>): Promise<ApiObject[]>;
  /**
   * Yields the JSON frames of a stream until it ends or the signal aborts. @throws Refused; StreamCut once it was open.
   */
  stream(path: string, query: Record<string, string>, signal: AbortSignal): AsyncIterable<Record<string, unknown>>;
  /** Opens a stream whose frames the caller reads and writes. It is paused: `resume` it. @throws Refused */
  socket(path: string, query: Record<string, string>): Promise<WebSocket>;
}

/** Longer than any wait for a change, and shorter than the five minutes after which `fetch` itself gives up. */
const timeoutMs = 270_000;

/** Longest time that a request takes in all that got 429, and one that got 503, wrote nothing and may soon succeed. */
const longestWaitSeconds = { busy: 60, unavailable: 10 };
/** A shorter wait is not printed. */
const shortWaitSeconds = 2;

/** The client of a connection; its requests end when `stop` aborts. */
export function createClient(connection: Connection, stop?: AbortSignal, clock: Clock = systemClock): Client {
  if (!/^https?:\/\/./.test(connection.server) || !URL.canParse(connection.server))
    throw new Error(`The server must be an address such as http://127.0.0.1:7070: got ${connection.server}`);
  const base = `${connection.server.replace(/\/$/, '')}/${connection.tenant}`;

  async function call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<z.infer<typeof Envelope> | undefined> {
    const response = await send(`${base}${path}`, {
      method,
      headers: {
        ...credential(connection.token),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(stop === undefined ? [] : [stop])]),
      redirect: 'manual', // `fetch` would make a GET of a change, and send a service key to any other host
    }).catch((error: unknown) => {
      stop?.throwIfAborted();
      throw method === 'GET' || !mayBeSent(error) ? unreachable(connection, error) : cutOff(connection, error);
    });
    if (response.status === 204) return undefined;
    const location = response.headers.get('location');
    if (isRedirect(response.status) && location !== null) {
      await response.body?.cancel();
      throw redirected(connection, location);
    }
    const retryAfter = response.headers.get('retry-after');
    const answer: unknown = await response.json().catch((error: unknown) => {
      if (error instanceof SyntaxError) return undefined;
      stop?.throwIfAborted();
      throw cutOff(connection, error);
    });
    const envelope = Envelope.safeParse(answer);
    if (envelope.success && envelope.data.success) return envelope.data;
    throw refusal(connection, response.status, answer, path === '/api/v1/auth/login', retryAfter);
  }

  /**
   * Sends again, after a pause, what was not carried out and may soon succeed: it got 429, or 503 with no other reason
   * than `not_written`. Prints to standard error what it waits for.
   */
  async function send(address: string, init: RequestInit & { signal: AbortSignal }): Promise<Response> {
    const began = performance.now();
    for (let shown: string | undefined; ;) {
      const response = await fetch(address, init);
      const seconds = Number(response.headers.get('retry-after') ?? '');
      const { patience, why } = await patienceFor(response);
      const waited = (performance.now() - began) / 1000 + seconds;
      if (!(seconds > 0) || waited > patience) return response;
      await response.body?.cancel();
      if (waited > shortWaitSeconds && why !== shown) {
        console.error(displayable(`… ${why}: tries again in ${seconds} s`));
        shown = why;
      }
      await delay(seconds * 1000, undefined, { signal: init.signal }); // keeps the process alive: nothing else does
    }
  }

  const request: Client['request'] = async (method, path, body, headers) => {
    const envelope = await call(method, path, body, headers);
    return envelope?.success === true ? envelope.data : undefined;
  };

  return {
    connection,
    request,
    object: async (method, path, body, headers) => ApiObject.parse(await request(method, path, body, headers)),
    async upload(path, file) {
      const headers = credential(connection.token);
      const { sendFile } = await import('./send-file.ts'); // few commands send one
      const { status, text, location } = await sendFile(`${base}${path}`, { path: file, headers }, stop).catch(
        (error: unknown) => {
          stop?.throwIfAborted();
          if (isOfFile(error)) throw error;
          throw mayBeSent(error) ? cutOff(connection, error) : unreachable(connection, error);
        },
      );
      if (isRedirect(status) && location !== undefined) throw redirected(connection, location);
      const answer = parsed(text);
      const envelope = Envelope.safeParse(answer);
      if (envelope.success && envelope.data.success) return ApiObject.parse(envelope.data.data);
      throw refusal(connection, status, answer);
    },
    async list(path, query = {}) {
      const all: ApiObject[] = [];
      let cursor: string | undefined;
      do {
        const search = new URLSearchParams({ ...query, limit: '500', ...(cursor === undefined ? {} : { cursor }) });
        const envelope = await call('GET', `${path}?${search.toString()}`);
        if (envelope?.success !== true) break;
        all.push(...z.array(ApiObject).parse(envelope.data));
        cursor = envelope.meta?.next_cursor ?? undefined;
      } while (cursor !== undefined);
      return all;
    },
    stream: (path, query, signal) =>
      readFrames(connection, `${base.replace(/^http/, 'ws')}${path}`, query, { signal, clock }),
    socket: (path, query) => openSocket(connection, `${base.replace(/^http/, 'ws')}${path}`, query, clock),
  };
}

/** Whether the file that was to be sent could not be read. */
function isOfFile(error: unknown): error is Error {
  return error instanceof Error && 'path' in error;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** How many seconds a request with this answer may take in all until it is sent again, and why; 0: it is not. */
async function patienceFor(response: Response): Promise<{ patience: number; why?: string }> {
  if (response.status !== 429 && response.status !== 503) return { patience: 0 };
  const answer: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  const envelope = Envelope.safeParse(answer);
  if (!envelope.success || envelope.data.success) return { patience: 0 };
  const { message: why, details = [] } = envelope.data.error;
  if (response.status === 429) return { patience: longestWaitSeconds.busy, why };
  // a further reason is one that lasts, such as an agent that is away
  const maySoonSucceed = details.length > 0 && details.every(({ reason }) => reason === 'not_written');
  return { patience: maySoonSucceed ? longestWaitSeconds.unavailable : 0, why };
}

const gaveUp =
  ': a proxy before it got no answer. The request may have been carried out: look before you send it again. Let the proxy wait for 5 minutes';

/** What a status means that a proxy answers in place of the control plane. */
const ofProxy: ReadonlyMap<number, string> = new Map([
  [413, ': a proxy before it refuses a body of this size. Raise its limit'],
  [502, gaveUp],
  [504, gaveUp],
]);

/** The error of a refused request, with advice on what to do. */
function refusal(
  { server, tenant }: Connection,
  status: number,
  answer: unknown,
  isLogin = false,
  retryAfter: string | null = null,
): Error {
  const envelope = Envelope.safeParse(answer);
  if (!envelope.success || envelope.data.success) {
    const text = `${server} answered ${status}, but not as a Setpoint control plane does${ofProxy.get(status) ?? ''}`;
    return status < 500 ? new Error(text) : new NoAnswer(text);
  }
  const { code, message, details } = envelope.data.error;
  const fields = (details ?? [])
    .filter((it) => !message.includes(it.message))
    .map((it) => `\n  ${it.field ?? ''}: ${it.message}`)
    .join('');
  const advice =
    status === 401 && !isLogin ? `: run \`setpoint login --server ${server} --tenant ${tenant} --email ADDRESS\`` : '';
  const later = status === 429 && retryAfter !== null ? `: try again in ${retryAfter} s` : '';
  const reasons = (details ?? []).flatMap((it) => it.reason ?? []);
  return new Refused(status, code, `${message}${fields}${advice}${later}`, reasons);
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** The error of an answer that names another address, which gets no request. */
function redirected({ server, tenant }: Connection, location: string): Error {
  // what a request is for follows the tenant
  const [base = location] = (URL.parse(location, server)?.href ?? location).split(`/${tenant}/`, 1);
  return new Error(
    `${server} redirects to ${base}, and nothing was done: use that address in --server or SETPOINT_URL, or log in there`,
  );
}

function unreachable({ server }: Connection, error: unknown): Error {
  const text = `Cannot reach ${server}: ${reasonOf(error)}. Does the control plane run there?`;
  return new NoAnswer(text, { cause: error });
}

/** What becomes of a connection once it was there: a request on it may have been read. */
const losses: ReadonlySet<unknown> = new Set([
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_TIMEOUT',
]);

/** Whether a request that failed so may have reached the control plane. */
function mayBeSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'TimeoutError') return true;
  const cause = error.cause instanceof Error ? error.cause : error;
  const isOfConnect = 'syscall' in cause && cause.syscall === 'connect';
  return 'code' in cause && losses.has(cause.code) && !isOfConnect;
}

function cutOff({ server }: Connection, error: unknown): Error {
  const text = `Lost the connection to ${server} before all of its answer came: ${reasonOf(error)}`;
  return new NoAnswer(`${text}. The request may have been carried out: look before you send it again`, {
    cause: error,
  });
}

function credential(token: string | undefined): Record<string, string> {
  if (token === undefined) return {};
  return token.startsWith('sp_') ? { 'x-service-key': token } : { authorization: `Bearer ${token}` };
}

function reasonOf(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return error.cause.message;
  return error instanceof Error ? error.message : String(error);
}

async function dial(connection: Connection, address: string, query: Record<string, string>): Promise<WebSocket> {
  const { WebSocket } = await import('ws'); // most commands open no stream
  return new WebSocket(`${address}?${new URLSearchParams(query).toString()}`, {
    headers: credential(connection.token),
    handshakeTimeout: 10_000,
    perMessageDeflate: false,
  });
}

function onRefusal(socket: WebSocket, connection: Connection, refused: (error: Error) => void): void {
  socket.on('unexpected-response', (request, response) => {
    const { statusCode = 0 } = response;
    const { location } = response.headers;
    const isElsewhere = isRedirect(statusCode) && location !== undefined;
    json(response)
      .catch(() => undefined)
      .then((answer) => {
        refused(isElsewhere ? redirected(connection, location) : refusal(connection, statusCode, answer));
      }, refused)
      .finally(() => request.destroy());
  });
}

async function openSocket(
  connection: Connection,
  address: string,
  query: Record<string, string>,
  clock: Clock,
): Promise<WebSocket> {
  const socket = await dial(connection, address, query);
  socket.once(
    'close',
    onSilence(socket, clock, () => socket.terminate()),
  );
  return new Promise((resolve, reject) => {
    onRefusal(socket, connection, reject);
    socket.on('error', (error) => reject(unreachable(connection, error)));
    socket.once('open', () => {
      socket.pause();
      resolve(socket);
    });
  });
}

/** The server sends a ping every 30 s, so that a stream that is silent for longer than two of them is broken. */
const silence = { checkMs: 5000, mostMs: 75_000 } as const;

/**
 * Calls `silent` once nothing was heard for too long on a socket that is read: a connection that a device in between has
 * forgotten is never closed. Returns a function that stops it.
 */
function onSilence(socket: WebSocket, clock: Clock, silent: () => void): () => void {
  let heardAt = clock.monotonic();
  socket.on('message', () => void (heardAt = clock.monotonic()));
  return every(clock, silence.checkMs, () => {
    if (socket.isPaused) heardAt = clock.monotonic();
    else if (clock.monotonic() - heardAt > silence.mostMs) silent();
  });
}

/** Frames that may wait for the reader; with more, the socket is paused. */
const waiting = 1000;

async function* readFrames(
  connection: Connection,
  address: string,
  query: Record<string, string>,
  { signal, clock }: { signal: AbortSignal; clock: Clock },
): AsyncGenerator<Record<string, unknown>> {
  const socket = await dial(connection, address, query);
  const frames: Record<string, unknown>[] = [];
  let isOpen = false;
  let ended: Error | 'orderly' | undefined;
  let wake = Promise.withResolvers<void>();
  const end = (how: Error | 'orderly'): void => {
    ended ??= how;
    wake.resolve();
  };
  socket.on('open', () => void (isOpen = true));
  const stopListening = onSilence(socket, clock, () =>
    end(new StreamCut(`Nothing was heard for ${silence.mostMs / 1000} s`)),
  );
  socket.on('message', (data: Buffer) => {
    frames.push(z.record(z.string(), z.unknown()).parse(JSON.parse(data.toString())));
    if (frames.length >= waiting) socket.pause();
    wake.resolve();
  });
  onRefusal(socket, connection, end);
  socket.on('close', (code, reason) => {
    const why = reason.length === 0 ? String(code) : `${reason.toString()} (${code})`;
    end(code === 1000 ? 'orderly' : new StreamCut(`The stream was closed: ${why}`));
  });
  socket.on('error', (error) =>
    end(
      isOpen ? new StreamCut(`The stream failed: ${error.message}`, { cause: error }) : unreachable(connection, error),
    ),
  );
  const abort = (): void => end('orderly');
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    for (;;) {
      const frame = frames.shift();
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      if (ended !== undefined) break;
      socket.resume();
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
    if (ended instanceof Error) throw ended;
  } finally {
    stopListening();
    signal.removeEventListener('abort', abort);
    socket.terminate();
  }
}
