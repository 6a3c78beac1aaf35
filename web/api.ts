import type { components, paths } from './api-types.d.ts';

/** A refusal by the server, with the server's message. */
export class Refused extends Error {
  readonly status: number;
  readonly reason: string | undefined;

  constructor(status: number, message: string, reason?: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** The session of the console. It is kept as long as the browser's tab, and sent in a header, never as a cookie. */
export interface Login {
  tenant: string;
  token: string;
  email: string;
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

type Method = 'get' | 'post' | 'put';
type MethodName = Uppercase<Method>;
/** The paths that have an operation of this method. */
type PathOf<M extends Method> = { [P in keyof paths]: paths[P][M] extends undefined ? never : P }[keyof paths];
type Operation<N extends MethodName, P extends keyof paths> = NonNullable<paths[P][Lowercase<N>]>;

interface Answer<D> {
  content: { 'application/json': { data: D } };
}
/** `data` of the answer to a request that succeeds. */
type Data<O> = O extends { responses: { 200: Answer<infer D> } | { 201: Answer<infer D> } } ? D : undefined;
type Item<O> = Data<O> extends (infer T)[] ? T : never;
/** What a request can carry. */
interface AnyInput {
  path?: object;
  query?: object;
  body?: unknown;
}

/** What a request of this operation carries. */
type Input<O> = AnyInput &
  (O extends { parameters: { path: infer P } } ? { path: P } : unknown) &
  (O extends { parameters: { query?: infer Q } } ? { query?: Q } : unknown) &
  (O extends { requestBody: { content: { 'application/json': infer B } } } ? { body: B } : unknown);
type InputArguments<O> = {} extends Input<O> ? [input?: Input<O>] : [input: Input<O>];

interface Envelope {
  data?: unknown;
  meta?: components['schemas']['ListMeta'];
  error?: components['schemas']['Error']['error'];
}

type Sender = Pick<Login, 'tenant'> & { token?: string };

/** Reads; a request without any answer is sent once more, since the network may just have changed. */
async function read(path: string, token: string | undefined): Promise<Response> {
  const ask = (): Promise<Response> =>
    fetch(path, {
      signal: AbortSignal.timeout(timeoutMs),
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }) },
    });
  return ask().catch((error: unknown) => {
    if (error instanceof TypeError) return ask();
    throw error;
  });
}

function write(path: string, token: string | undefined, method: string, body: unknown): Promise<Response> {
  return fetch(path, {
    method,
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
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
  const address = addressOf(tenant, path, input);
  const { data } = await answerOf(
    await (method === 'GET' ? read(address, token) : write(address, token, method, input.body)),
  );
  return data;
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
    const query = { ...input.query, limit: 500, ...(cursor !== null && { cursor }) };
    const { data, meta } = await answerOf(await read(addressOf(tenant, path, { ...input, query }), token));
    items.push(...(data as unknown[])); // the path is of a list
    cursor = meta?.next_cursor ?? null;
  } while (cursor !== null && items.length < most);
  return items;
}

/** Puts parameters into a path of the API's document. */
function addressOf(tenant: string, path: string, { path: values = {}, query = {} }: AnyInput): string {
  const given = new Map(Object.entries<unknown>({ ...values }));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given.get(name))));
  const parameters = Object.entries<unknown>({ ...query }).map(([name, value]) => [name, String(value)]);
  const search = new URLSearchParams(parameters).toString();
  return `/${tenant}${filled}${search === '' ? '' : `?${search}`}`;
}

/** @throws Refused */
async function answerOf(response: Response): Promise<Envelope> {
  const text = await response.text();
  const answer = (text === '' ? {} : JSON.parse(text)) as Envelope; // every answer is in the envelope
  if (response.ok) return answer;
  const { message = response.statusText, details } = answer.error ?? {};
  throw new Refused(response.status, message, details?.[0]?.reason);
}

/**
 * Opens the socket of a stream. A page cannot set headers of a socket, so that its URL carries a ticket, which works
 * once and for 30 seconds. @throws Refused; Error if there is no answer
 */
export async function openSocket(login: Login, path: string, query: Record<string, string> = {}): Promise<WebSocket> {
  const { tenant } = login;
  const { ticket } = await call(login, 'POST', '/api/v1/auth/stream-tickets', { body: { path } });
  const url = new URL(`/${tenant}${path}`, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.search = new URLSearchParams({ ...query, token: ticket }).toString();
  return new WebSocket(url);
}
