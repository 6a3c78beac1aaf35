import createFetch from 'openapi-fetch';
import type { Client } from 'openapi-fetch';
import type { components, paths } from '../web/api-types.d.ts';

/** A control plane, and who asks it: `token` is that of a session or a service key. */
export interface Access {
  /** Base URL without tenant, for example `http://127.0.0.1:7070`. */
  readonly server: string;
  readonly tenant: string;
  readonly token: string;
}

/** A request of the API that failed, as the server says it. */
export class Refused extends Error {
  readonly status: number;
  readonly error: components['schemas']['Error']['error'] | undefined;

  constructor(status: number, error: components['schemas']['Error']['error'] | undefined) {
    super(error?.message ?? `The server answered with status ${status}`);
    this.status = status;
    this.error = error;
  }
}

/** Requests by path and method of the API's document, whose parameters, bodies and answers are typed by it. */
export function createClient(access: Access): Client<paths> {
  return createFetch<paths>({ baseUrl: baseOf(access), headers: { authorization: `Bearer ${access.token}` } });
}

function baseOf({ server, tenant }: Access): string {
  return `${server.replace(/\/$/, '')}/${encodeURIComponent(tenant)}`;
}

interface Answer<T> {
  readonly data?: { readonly data: T };
  readonly error?: components['schemas']['Error'];
  readonly response: Response;
}

/** `data` of an answer. @throws Refused */
export function dataOf<T>({ data, error, response }: Answer<T>): T {
  if (data === undefined) throw new Refused(response.status, error?.error);
  return data.data;
}

/** What `/ws/watch` sends. After a `gap` changes were missed: the lists are to be read again. */
export type WatchFrame =
  | { readonly type: 'ready'; readonly cursor: string }
  | { readonly type: 'gap' | 'ping' | 'end' }
  | {
      readonly type: 'change';
      readonly op: 'put' | 'delete';
      readonly kind: string;
      readonly id: string;
      readonly object?: unknown;
      readonly cursor: string;
    };

interface WatchOptions {
  readonly kinds: readonly string[];
  /** Of the last frame that had one: what came after it is sent first. */
  readonly cursor?: string;
  readonly signal: AbortSignal;
}

/** Most frames that wait for the reader. */
const mostWaiting = 10_000;

/** The changes of objects as they happen, until the signal aborts or the server ends it. @throws Refused; Error for a reader that is too slow */
export async function* watch(access: Access, { kinds, cursor, signal }: WatchOptions): AsyncGenerator<WatchFrame> {
  const asked = await createClient(access).POST('/api/v1/auth/stream-tickets', {
    body: { path: '/ws/watch' },
    signal,
  });
  const { ticket } = dataOf(asked);
  const url = new URL(`${baseOf(access)}/ws/watch`);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  const from = cursor === undefined ? {} : { cursor };
  url.search = new URLSearchParams({ kinds: kinds.join(','), token: ticket, ...from }).toString();
  const socket = new WebSocket(url);
  const waiting: string[] = [];
  const link: { state: 'open' | 'closed' | 'slow' } = { state: 'open' };
  let next = Promise.withResolvers<void>();
  const end = (how: 'closed' | 'slow'): void => {
    if (link.state === 'open') link.state = how;
    socket.close();
    next.resolve();
  };
  const stop = (): void => end('closed');
  socket.addEventListener('message', ({ data }) => {
    if (waiting.length >= mostWaiting) end('slow');
    else waiting.push(String(data));
    next.resolve();
  });
  socket.addEventListener('close', stop);
  socket.addEventListener('error', stop);
  signal.addEventListener('abort', stop, { once: true });
  try {
    while (!signal.aborted) {
      const text = waiting.shift();
      if (text !== undefined) yield JSON.parse(text) as WatchFrame; // the server sends nothing else
      else if (link.state === 'slow')
        throw new Error('Frames came faster than they were read: watch again by the last cursor');
      else if (link.state === 'closed') return;
      else {
        await next.promise;
        next = Promise.withResolvers();
      }
    }
  } finally {
    signal.removeEventListener('abort', stop);
    socket.close();
  }
}
