import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../store/clock.ts';
import { badRequest, unauthorized } from './api-error.ts';
import type { ApiError } from './api-error.ts';
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
/** Of one connection, once it got its last answer. */
const maxPassedBytes = 4 * 1024 * 1024;
/** A request to the interface of a tenant whose credential reaches to the end of what was read. */
const tooLongCredential = /^[A-Z]+ \/[^/?\s]+\/(?:api\/v1|ws)[/?\s][^]*\r\n(?:authorization|x-service-key):[^\r\n]*$/i;

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
    // without a host a request is answered by the listener, in the envelope
    {
      ...limits,
      requireHostHeader: false,
      shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
    },
    listener,
  );
  server.maxRequestsPerSocket = maxRequestsPerSocket;
  server.on('request', (_request, response) => {
    underWay.set(server, requestsOf(server) + 1);
    response.once('close', () => underWay.set(server, requestsOf(server) - 1));
  });
  const answered = new WeakSet<Duplex>();
  server.on('clientError', (error: ParseError, socket: Socket) => {
    // what is still under way of a request that has its answer passes by: a reset would take the answer along
    if (answered.has(socket) && isTooLong(error) && socket.bytesRead < maxPassedBytes) return;
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    const own = headers();
    answerRaw(socket, faultOf(error), own['x-request-id'], own);
  });
  return server;
}

/** What the parser of HTTP says. */
interface ParseError extends Error {
  code?: string;
  /** What came last. */
  rawPacket?: Buffer;
}

function isTooLong({ code }: ParseError): boolean {
  return code === 'HPE_HEADER_OVERFLOW';
}

/** A credential for which all the headers have no room is a wrong one, as every other that is none of ours. */
function faultOf(error: ParseError): ApiError {
  const head = error.rawPacket?.toString('latin1', 0, limits.maxHeaderSize) ?? '';
  if (isTooLong(error) && tooLongCredential.test(head)) return unauthorized();
  return badRequest('Request is not valid HTTP, too long or too slow');
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
