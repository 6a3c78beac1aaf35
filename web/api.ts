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

interface Envelope {
  data?: unknown;
  error?: { message: string; details?: { reason: string; message: string }[] };
}

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

/** Sends a request below `/<tenant>/api/v1` and returns `data`. @throws Refused; Error if there is no answer */
export async function call<T>(
  { tenant, token }: Pick<Login, 'tenant'> & { token?: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<T> {
  const address = `/${tenant}/api/v1${path}`;
  const response = await (method === 'GET' ? read(address, token) : write(address, token, method, body));
  const text = await response.text();
  const answer = (text === '' ? {} : JSON.parse(text)) as Envelope; // every answer is in the envelope
  if (response.ok) return answer.data as T; // the caller knows the route
  const { message = response.statusText, details } = answer.error ?? {};
  throw new Refused(response.status, message, details?.[0]?.reason);
}

/** All pages of a list, up to about `most` items. */
export async function list<T>(login: Login, path: string, most = 1000): Promise<T[]> {
  const items: T[] = [];
  const joint = path.includes('?') ? '&' : '?';
  let cursor: string | null = null;
  do {
    const after: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const response = await read(`/${login.tenant}/api/v1${path}${joint}limit=500${after}`, login.token);
    const answer = (await response.json()) as Envelope & { meta?: { next_cursor: string | null } };
    if (!response.ok) throw new Refused(response.status, answer.error?.message ?? response.statusText);
    items.push(...(answer.data as T[]));
    cursor = answer.meta?.next_cursor ?? null;
  } while (cursor !== null && items.length < most);
  return items;
}

/**
 * Opens the socket of a stream. A page cannot set headers of a socket, so that its URL carries a ticket, which works
 * once and for 30 seconds. @throws Refused; Error if there is no answer
 */
export async function openSocket(login: Login, path: string, query: Record<string, string> = {}): Promise<WebSocket> {
  const { tenant } = login;
  const { ticket } = await call<{ ticket: string }>(login, 'POST', '/auth/stream-tickets', { path });
  const url = new URL(`/${tenant}${path}`, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.search = new URLSearchParams({ ...query, token: ticket }).toString();
  return new WebSocket(url);
}
