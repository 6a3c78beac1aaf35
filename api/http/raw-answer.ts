import type { Duplex } from 'node:stream';
import { STATUS_CODES } from '../../agent-protocol/node-http.ts';
import type { ApiError } from '../ground/api-error.ts';
import { errorBody } from './respond.ts';
import type { Headers } from './respond.ts';

/**
 * Answers on a bare socket, in the envelope, and ends the connection. It is for refused upgrades and for invalid HTTP.
 */
export function answerRaw(socket: Duplex, error: ApiError, requestId: string, headers: Headers): void {
  const body = errorBody(error, requestId);
  const lines = Object.entries({
    ...headers,
    ...(error.retryAfter !== undefined && { 'retry-after': error.retryAfter }),
    ...(error.code === 'UNAUTHORIZED' && { 'www-authenticate': 'Bearer' }),
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  }).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}`, ...lines, '', body].join('\r\n'));
}
