import type { ServerResponse } from 'node:http';
import type { ApiError } from '../ground/api-error.ts';
import type { Kept, ListMeta } from '../ground/cached-json.ts';

export type Headers = Record<string, string | number>;

/** Sent with every answer, errors included. */
export const securityHeaders: Readonly<Headers> = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

const jsonType = 'application/json; charset=utf-8';

/** Sends a body as it is; adds its type and length to `headers`. */
export function sendBody(
  response: ServerResponse,
  status: number,
  headers: Headers,
  body: string | Buffer,
  type = jsonType,
): void {
  headers['content-type'] = type;
  headers['content-length'] = Buffer.byteLength(body);
  response.writeHead(status, headers);
  response.end(body);
}

/** Sends a whole body at once; closes the connection when `passed` resolves. */
export function sendBeforeEnd(
  response: ServerResponse,
  status: number,
  headers: Headers,
  body: string,
  passed: Promise<void>,
): void {
  headers['connection'] = 'close';
  headers['content-type'] = jsonType;
  headers['content-length'] = Buffer.byteLength(body);
  response.writeHead(status, headers);
  response.write(body);
  void passed.then(() => response.end());
}

export function sendNothing(response: ServerResponse, status: number, headers: Headers): void {
  response.writeHead(status, headers);
  response.end();
}

export function objectBody({ json }: Kept<unknown>): string {
  return `{"success":true,"data":${json}}`;
}

export function pageBody(items: readonly Kept<unknown>[], meta: ListMeta): string {
  return `{"success":true,"data":[${items.map(({ json }) => json).join(',')}],"meta":${JSON.stringify(meta)}}`;
}

export function errorBody(error: ApiError, requestId: string): string {
  const { code, message, details } = error;
  return JSON.stringify({
    success: false,
    error: { code, message, ...(details.length > 0 && { details }), request_id: requestId },
  });
}
