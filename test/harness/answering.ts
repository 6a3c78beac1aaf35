import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';

/** A request that came, without the tenant in its path. */
export interface Came {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  /** Parsed if it is JSON. */
  body: unknown;
}

type Answer = (came: Came, response: ServerResponse) => unknown;

/**
 * Stands for a control plane toward the command line. Each route, such as `GET /api/v1/projects`, returns the data of its
 * answer, or ends the response itself; any other gets 404.
 */
export class Answering implements AsyncDisposable {
  readonly requests: Came[] = [];
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, { port }: AddressInfo) {
    this.#server = server;
    this.url = `http://127.0.0.1:${port}`;
  }

  /** `onSocket` gets each stream that is opened, with its path. */
  static async start(
    routes: Readonly<Record<string, Answer>>,
    onSocket: (socket: WebSocket, path: string) => void = (socket) => socket.close(1000),
  ): Promise<Answering> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const it = new Answering(server, server.address() as AddressInfo); // a TCP server has such an address
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void it.#answer(routes, request, response);
    });
    const sockets = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      sockets.handleUpgrade(request, socket, head, (opened) => onSocket(opened, pathOf(request))),
    );
    return it;
  }

  /** Such as `POST /api/v1/projects`, in the order in which they came. */
  came(): string[] {
    return this.requests.map(({ method, path }) => `${method} ${path}`);
  }

  async #answer(
    routes: Readonly<Record<string, Answer>>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { method = '', headers } = request;
    const sent = await text(request);
    const isJson = headers['content-type'] === 'application/json';
    const came = {
      method,
      path: pathOf(request),
      headers,
      body: isJson ? (JSON.parse(sent) as unknown) : sent,
    };
    this.requests.push(came);
    const answer = routes[`${method} ${came.path}`];
    const data = await answer?.(came, response);
    if (response.writableEnded || response.destroyed) return;
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    const error = { code: 'NOT_FOUND', message: `Nothing answers ${method} ${came.path}` };
    response.end(JSON.stringify(answer === undefined ? { success: false, error } : { success: true, data }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Without the tenant and the query. */
function pathOf({ url = '' }: IncomingMessage): string {
  return url.replace(/^\/[^/]*/, '').replace(/\?.*$/, '');
}
