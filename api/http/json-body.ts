import type { IncomingMessage } from 'node:http';
import { badRequest } from '../ground/api-error.ts';
import { readBytes } from './read-bytes.ts';

const maxDepth = 32;

/**
 * Reads the body of a request as JSON; `undefined` if there is none.
 *
 * @throws ApiError BAD_REQUEST if it is not JSON in UTF-8, is too long or too deep, or has a key `__proto__`.
 */
export async function readJsonBody(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) return undefined;
  const type = request.headers['content-type'];
  if (type === undefined || !/^application\/(json|[\w.-]+\+json)\s*(;|$)/i.test(type))
    throw badRequest(`Body must be application/json: got ${type ?? 'no content type'}`);
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw badRequest('Body must not be compressed');
  const value = parse(bytes);
  checkShape(value, maxDepth);
  return value;
}

function parse(bytes: Buffer): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw badRequest('Body must be UTF-8');
  }
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest('Body must be valid JSON');
  }
}

function checkShape(value: unknown, depthLeft: number): void {
  if (typeof value !== 'object' || value === null) return;
  if (depthLeft === 0) throw badRequest(`Body must not be nested deeper than ${maxDepth}`);
  if (Object.hasOwn(value, '__proto__')) throw badRequest('Body must not contain __proto__');
  for (const inner of Object.values(value)) checkShape(inner, depthLeft - 1);
}
