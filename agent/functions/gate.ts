import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createServer } from '../../agent-protocol/node-http.ts';
import type { Clock } from '../../time/clock.ts';
import type { Activator } from './activator.ts';
import { CallFault } from './call-fault.ts';
import { forward } from './forward.ts';
import type { Forward } from './forward.ts';

/** What connects calls and functions: ports of the server that lead to them, and the way to their instances. */
export interface Gate {
  /** Resolves when the port leads there; its disposal closes it. @throws Error with the code `EADDRINUSE` if it is taken */
  open(port: number, activator: Pick<Activator, 'call'>): Promise<AsyncDisposable>;
  readonly forward: Forward;
}

/** For an engine in memory, of which nobody asks anything by a port: its instances answer each call with nothing. */
export const closedGate: Gate = {
  open: () => Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() }),
  async forward(_, call) {
    await call.answer({ status: 200, headers: {}, body: Readable.from([]) });
    return 200;
  },
};

/** Most connections at a port: further ones are refused, so that nobody takes the memory of the agent. */
const mostConnections = 2000;
/** Calls that are under way have so long when a port is closed. */
export const drainMs = 10_000;
/** Time in which the headers of a request must come. */
const headersMs = 30_000;
/** Time in which the refusal of another protocol is taken. */
const refusalMs = 1_000;

const refusal =
  'HTTP/1.1 501 Not Implemented\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nFunctions take no WebSocket connections: run an application instead\n';

/** Opens ports of this machine, on all its addresses. */
export const machineGate = (clock: Clock): Gate => ({
  forward,
  async open(port, activator) {
    // how long a handler may take is for its function to say
    const server = createServer(
      { requestTimeout: 0, headersTimeout: headersMs },
      (request, response) => void answer(request, response, activator),
    );
    // with those that the server hands over, and does not close itself
    const sockets = new Set<Socket>();
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    server.on('upgrade', (_, socket) => {
      const cancel = clock.timer(refusalMs, () => socket.destroy());
      socket.once('close', cancel);
      socket.on('error', () => socket.destroy());
      socket.end(refusal, () => socket.destroy());
    });
    server.maxConnections = mostConnections;
    server.listen(port);
    await once(server, 'listening');
    server.on('error', () => undefined); // of one connection: the port takes further ones
    return {
      async [Symbol.asyncDispose]() {
        const closed = Promise.withResolvers<void>();
        server.close(() => closed.resolve());
        server.closeIdleConnections();
        const cancel = clock.timer(drainMs, () => {
          for (const socket of sockets) socket.destroy();
        });
        await closed.promise;
        cancel();
      },
    };
  },
});

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  activator: Pick<Activator, 'call'>,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new Error('Who called went away'));
  });
  try {
    await activator.call(
      {
        trigger: 'http',
        method: request.method ?? 'GET',
        path: request.url ?? '/',
        headers: request.headers,
        body: request,
        async answer({ status, headers, body }) {
          response.writeHead(status, headers);
          await pipeline(body, response);
        },
      },
      gone.signal,
    );
  } catch (error) {
    if (response.headersSent || !(error instanceof CallFault)) {
      response.destroy();
      return;
    }
    response.writeHead(error.status, {
      'content-type': 'application/json',
      ...(error.retryAfter !== undefined && { 'retry-after': String(error.retryAfter) }),
    });
    response.end(JSON.stringify({ error: { code: error.code, message: error.message } }));
  }
}
