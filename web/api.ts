import type { components, paths } from './api-types.d.ts';

export type FieldError = NonNullable<components['schemas']['Error']['error']['details']>[number];

/** A refusal by the server: its message, what it says of fields, and the id by which its log knows the request. */
export class Refused extends Error {
  readonly status: number;
  readonly details: readonly FieldError[];
  readonly requestId: string | undefined;
  /** Seconds after which the request may be sent again. */
  readonly retryAfter: number | undefined;

  constructor(
    status: number,
    message: string,
    error?: Partial<components['schemas']['Error']['error']>,
    after?: number,
  ) {
    super(message);
    this.status = status;
    this.details = error?.details ?? [];
    this.requestId = error?.request_id;
    this.retryAfter = after;
  }

  /** The first reason that the server names for programs. */
  get reason(): string | undefined {
    return this.details[0]?.reason;
  }
}

/** The session of the console. It is kept as long as the browser's tab, and sent in a header, never as a cookie. */
export interface Login {
  readonly tenant: string;
  /** Another one once the same user has signed in again. */
  token: string;
  readonly email: string;
}

const key = 'setpoint.login';
const timeoutMs = 30_000;

export function storedLogin(): Login | undefined {
  const text = sessionStorage.getItem(key);
  return text === null ? undefined : (JSON.parse(text) as Login); // `storeLogin` wrote it
}

export function storeLogin(login: Login | undefined): void {
  if (login === undefined) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, JSON.stringify(login));
}

/** What goes on once the user of a login has signed in again. */
const waiting = new WeakMap<Login, Set<() => void>>();

/** Calls `then` once the user, whose session has ended, has signed in again. Returns how that is waited for no more. */
export function onceRenewed(login: Login, then: () => void): () => void {
  const all = waiting.get(login) ?? new Set();
  waiting.set(login, all.add(then));
  return () => {
    all.delete(then);
  };
}

/** Goes on with the token of another session of the same user. */
export function renewLogin(login: Login, token: string): void {
  login.token = token;
  const all = waiting.get(login) ?? [];
  waiting.delete(login);
  for (const then of all) then();
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type MethodName = Uppercase<Method>;
/** The paths that have an operation of this method. */
export type PathOf<M extends Method> = { [P in keyof paths]: paths[P][M] extends undefined ? never : P }[keyof paths];
export type Operation<N extends MethodName, P extends keyof paths> = NonNullable<paths[P][Lowercase<N>]>;

interface Answer<D> {
  content: { 'application/json': { data: D } };
}
/** `data` of the answer to a request that succeeds. */
export type Data<O> = O extends
  | { responses: { 200: Answer<infer D> } }
  | { responses: { 201: Answer<infer D> } }
  | { responses: { 202: Answer<infer D> } }
  ? D
  : undefined;
type Item<O> = Data<O> extends (infer T)[] ? T : never;
/** What a request can carry. */
interface AnyInput {
  path?: object;
  query?: object;
  body?: unknown;
  /** The version that is to be changed; another one is refused with 409. */
  ifMatch?: string;
  /** How long its answer may take, where that depends on what it asks for. */
  timeoutMs?: number;
}

/** What a request of this operation carries. */
type Input<O> = AnyInput &
  (O extends { parameters: { path: infer P } } ? { path: P } : unknown) &
  (O extends { parameters: { query?: infer Q } } ? { query?: Q } : unknown) &
  (O extends { requestBody: { content: { 'application/json': infer B } } } ? { body: B } : unknown);
type InputArguments<O> = {} extends Input<O> ? [input?: Input<O>] : [input: Input<O>];

export type ListMeta = components['schemas']['ListMeta'];
interface Envelope {
  data?: unknown;
  meta?: ListMeta;
  error?: components['schemas']['Error']['error'];
}

export type Sender = Pick<Login, 'tenant'> & { token?: string };

/** The folder of the page: a proxy may have put a path before it. */
const base = (): URL => new URL('.', location.href);

/**
 * Sends a request. One that got no answer at all is sent once more, since the network may just have changed: a read is
 * safe to repeat, and a POST carries a key by which the server knows it again.
 */
async function send(path: string, token: string | undefined, method: string, input: AnyInput): Promise<Response> {
  const idempotencyKey = method === 'POST' ? randomKey() : undefined;
  const ask = (): Promise<Response> =>
    fetch(path, {
      method,
      signal: AbortSignal.timeout(input.timeoutMs ?? timeoutMs),
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(input.body !== undefined && { 'content-type': 'application/json' }),
        ...(input.ifMatch !== undefined && { 'if-match': `"${input.ifMatch}"` }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      ...(input.body !== undefined && { body: JSON.stringify(input.body) }),
    });
  return ask().catch((error: unknown) => {
    if (error instanceof TypeError && (method === 'GET' || method === 'POST')) return ask();
    throw error;
  });
}

/** A random name of a request; unlike `randomUUID` it is there on pages without TLS, too. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Sends a request and returns `data`. @throws Refused; Error if there is no answer */
export async function call<N extends MethodName, P extends PathOf<Lowercase<N>>>(
  sender: Sender,
  method: N,
  path: P,
  ...input: InputArguments<Operation<N, P>>
): Promise<Data<Operation<N, P>>>;
export async function call(
  { tenant, token }: Sender,
  method: MethodName,
  path: string,
  input: AnyInput = {},
): Promise<unknown> {
  const { data } = await answerOf(await send(addressOf(tenant, path, input), token, method, input));
  return data;
}

interface Upload extends Pick<AnyInput, 'path'> {
  readonly file: File;
  /** Told again and again how many bytes were sent. */
  readonly onSent: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/**
 * Sends a file as a form, however long that takes. It is not sent again by itself.
 *
 * @throws Refused; Error if there is no answer, or it was stopped
 */
export async function upload<P extends PathOf<'post'>>(
  sender: Login,
  path: P,
  input: Upload & (Operation<'POST', P> extends { parameters: { path: infer V } } ? { path: V } : unknown),
): Promise<Data<Operation<'POST', P>>>;
export async function upload({ tenant, token }: Login, path: string, input: Upload): Promise<unknown> {
  const { file, onSent, signal } = input;
  const form = new FormData();
  form.set('file', file);
  // only this kind of request tells how much was sent
  const request = new XMLHttpRequest();
  const answer = new Promise<Response>((resolve, reject) => {
    request.upload.addEventListener('progress', ({ loaded }) => onSent(Math.min(loaded, file.size)));
    request.addEventListener('load', () => resolve(responseOf(request)));
    request.addEventListener('error', () => reject(new Error('The connection ended before all of the file was sent')));
    request.addEventListener('abort', () => reject(new Error('Sending the file was stopped')));
  });
  const stop = (): void => request.abort();
  signal.addEventListener('abort', stop, { once: true });
  try {
    request.open('POST', addressOf(tenant, path, input));
    request.setRequestHeader('authorization', `Bearer ${token}`);
    request.send(form);
    const { data } = await answerOf(await answer);
    return data;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function responseOf(request: XMLHttpRequest): Response {
  const after = request.getResponseHeader('retry-after');
  return new Response(request.responseText, {
    status: request.status,
    headers: after === null ? {} : { 'retry-after': after },
  });
}

/** One page of a list. @throws Refused; Error if there is no answer */
export async function page<P extends PathOf<'get'>>(
  sender: Sender,
  path: P,
  ...input: InputArguments<Operation<'GET', P>>
): Promise<{ items: Item<Operation<'GET', P>>[]; meta: ListMeta }>;
export async function page({ tenant, token }: Sender, path: string, input: AnyInput = {}): Promise<unknown> {
  const { data, meta } = await answerOf(await send(addressOf(tenant, path, input), token, 'GET', input));
  return { items: data, meta };
}

/** All pages of a list, up to about `most` items. */
export async function list<P extends PathOf<'get'>>(
  login: Login,
  path: P,
  most: number,
  ...input: InputArguments<Operation<'GET', P>>
): Promise<Item<Operation<'GET', P>>[]>;
export async function list(
  { tenant, token }: Login,
  path: string,
  most: number,
  input: AnyInput = {},
): Promise<unknown[]> {
  const items: unknown[] = [];
  let cursor: string | null = null;
  do {
    const query = { ...input.query, limit: Math.min(500, most), ...(cursor !== null && { cursor }) };
    const address = addressOf(tenant, path, { ...input, query });
    const { data, meta } = await answerOf(await send(address, token, 'GET', {}));
    items.push(...(data as unknown[])); // the path is of a list
    cursor = meta?.next_cursor ?? null;
  } while (cursor !== null && items.length < most);
  return items;
}

/** Puts parameters into a path of the API's document. */
function addressOf(tenant: string, path: string, { path: values = {}, query = {} }: AnyInput): string {
  const given = new Map(Object.entries<unknown>({ ...values }));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given.get(name))));
  const parameters = Object.entries<unknown>({ ...query })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)]);
  const search = new URLSearchParams(parameters).toString();
  return new URL(`${inUrl(tenant)}${filled}${search === '' ? '' : `?${search}`}`, base()).href;
}

/** A tenant as the first part of a path: an address of the console, which others may have made, names it. */
function inUrl(tenant: string): string {
  return encodeURIComponent(tenant);
}

/** @throws Refused */
async function answerOf(response: Response): Promise<Envelope> {
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok && answer !== undefined) return answer;
  const after = Number(response.headers.get('retry-after') ?? Number.NaN);
  const message = answer?.error?.message ?? `The server answered with status ${response.status} and no message`;
  throw new Refused(response.status, message, answer?.error, Number.isFinite(after) ? after : undefined);
}

/** The envelope in an answer; `undefined` for what a proxy before the server has answered. */
function parsed(text: string): Envelope | undefined {
  if (text === '') return {};
  try {
    return JSON.parse(text) as Envelope; // every answer of the server is in the envelope
  } catch {
    return undefined;
  }
}

/**
 * Opens the socket of a stream. A page cannot set headers of a socket, so that its URL carries a ticket, which works
 * once and for 30 seconds. @throws Refused; Error if there is no answer
 */
export async function openSocket(login: Login, path: string, query: Record<string, string> = {}): Promise<WebSocket> {
  const { tenant } = login;
  const { ticket } = await call(login, 'POST', '/api/v1/auth/stream-tickets', { body: { path } });
  const url = new URL(`${inUrl(tenant)}${path}`, base());
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.search = new URLSearchParams({ ...query, token: ticket }).toString();
  return new WebSocket(url);
}

/** The message of what a request failed with. */
export function messageOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
