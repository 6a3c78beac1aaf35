import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { Clock } from '../store/clock.ts';
import { badRequest } from './api-error.ts';
import { answerRaw } from './raw-answer.ts';
import type { Headers } from './respond.ts';

const limits = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  maxHeaderSize: 16 * 1024,
} as const;
const maxRequestsPerSocket = 1000;
const closeIdleEveryMs = 100;

/** Requests that are being answered. */
const underWay = new WeakMap<Server, number>();
const requestsOf = (server: Server): number => underWay.get(server) ?? 0;

/** A server whose clients can neither stall nor flood it. `headers` go with answers to what is not even HTTP. */
export function createHttpServer(
  listener: RequestListener,
  headers: () => Headers & { 'x-request-id': string },
): Server {
  const server = createServer(
    // whoever asks for another protocol than a WebSocket gets HTTP
    { ...limits, shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket' },
    listener,
  );
  server.maxRequestsPerSocket = maxRequestsPerSocket;
  server.on('request', (_request, response) => {
    underWay.set(server, requestsOf(server) + 1);
    response.once('close', () => underWay.set(server, requestsOf(server) - 1));
  });
  server.on('clientError', (_error, socket) => {
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    const own = headers();
    answerRaw(socket, badRequest('Request is not valid HTTP, too long or too slow'), own['x-request-id'], own);
  });
  return server;
}

/**
 * No new connections; each of the others is closed when it is idle, or when time is up. What was upgraded is not waited
 * for: it belongs to whoever took it.
 */
export async function drain(server: Server, patienceMs: number, clock: Clock): Promise<void> {
  if (!server.listening) return;
  server.close();
  const end = clock.monotonic() + patienceMs;
  while (requestsOf(server) > 0 && clock.monotonic() < end) {
    server.closeIdleConnections();
    await new Promise<void>((resolve) => clock.timer(closeIdleEveryMs, resolve));
  }
  server.closeAllConnections();
}
