import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer } from '../../agent-protocol/node-http.ts';
import type { Clock } from '../../time/clock.ts';
import { badRequest, unauthorized } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import { withBodyDeadline } from './body-deadline.ts';
import { answerRaw } from './raw-answer.ts';
import type { Headers } from './respond.ts';

const limits = {
  headersTimeout: 10_000,
  // it cannot be lifted for one request: `body-deadline.ts` has another one
  requestTimeout: 0,
  keepAliveTimeout: 65_000,
  maxHeaderSize: 16 * 1024,
} as const;
const maxRequestsPerSocket = 1000;
const closeIdleEveryMs = 100;
/** A connection that got its last answer is cut once it has sent this many bytes in all. */
const maxPassedBytes = 4 * 1024 * 1024;
/** Matches a request to the API of a tenant that was cut off within its credential. */
const tooLongCredential = /^[A-Z]+ \/[^/?\s]+\/(?:api\/v1|ws)[/?\s][^]*\r\n(?:authorization|x-service-key):[^\r\n]*$/i;

/** Number of requests that are being answered. */
const underWay = new WeakMap<Server, number>();
const requestsOf = (server: Server): number => underWay.get(server) ?? 0;

/**
 * A server whose clients can neither stall nor flood it. `headers` go with answers to requests that are not valid HTTP.
 */
export function createHttpServer(
  listener: RequestListener,
  headers: () => Headers & { 'x-request-id': string },
): Server {
  const server = createServer(
    // a request to upgrade to any protocol but WebSocket is answered as plain HTTP; one without a host gets its answer
    // from the listener, in the envelope
    {
      ...limits,
      requireHostHeader: false,
      shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
    },
    listener,
  );
  server.maxRequestsPerSocket = maxRequestsPerSocket;
  withBodyDeadline(server);
  server.on('request', (_request, response) => {
    underWay.set(server, requestsOf(server) + 1);
    response.once('close', () => underWay.set(server, requestsOf(server) - 1));
  });
  const answered = new WeakSet<Duplex>();
  server.on('clientError', (error: ParseError, socket: Socket) => {
    // drop the rest of a request that already has its answer: a reset would destroy that answer
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

/** An error of the HTTP parser. */
interface ParseError extends Error {
  code?: string;
  /** The last bytes that were received. */
  rawPacket?: Buffer;
}

function isTooLong({ code }: ParseError): boolean {
  return code === 'HPE_HEADER_OVERFLOW';
}

/** A credential longer than the header limit gets 401, like any other invalid one. */
function faultOf(error: ParseError): ApiError {
  const head = error.rawPacket?.toString('latin1', 0, limits.maxHeaderSize) ?? '';
  if (isTooLong(error) && tooLongCredential.test(head)) return unauthorized();
  return badRequest('Request is not valid HTTP, too long or too slow');
}

/**
 * Accepts no new connections. Closes each other connection when it is idle, at the latest after `patienceMs`. It does
 * not wait for upgraded connections: the code that took them closes them.
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
