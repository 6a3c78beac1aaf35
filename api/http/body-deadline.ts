import type { IncomingMessage, Server } from 'node:http';

const bodyMs = 60_000;

const deadlines = new WeakMap<IncomingMessage, () => void>();

/**
 * Bounds the time in which the body of a request comes. After it, the server has a `clientError` of its socket, as after a
 * request timeout of its own, which could not be lifted for one request.
 */
export function withBodyDeadline(server: Server): void {
  server.on('request', (request: IncomingMessage) => {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
    if (encoding === undefined && Number(length) === 0) return;
    const timer = setTimeout(() => {
      if (request.complete) return;
      server.emit('clientError', new Error('The body of the request did not come in time'), request.socket);
    }, bodyMs);
    timer.unref();
    const end = (): void => clearTimeout(timer);
    request.once('end', end).once('close', end);
    deadlines.set(request, end);
  });
}

/** Lifts the deadline of a request, whose reader has others. */
export function withoutDeadline(request: IncomingMessage): void {
  deadlines.get(request)?.();
}
