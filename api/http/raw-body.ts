import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { z } from 'zod';
import { badRequest } from '../ground/api-error.ts';
import { readBytes } from './read-bytes.ts';

/** A request as it came in, for an endpoint that must see its bytes before anything of them is read. */
export interface RawRequest {
  bytes: Buffer;
  headers: IncomingHttpHeaders;
}

/** The body of an endpoint that reads it itself. */
export const RawBody = z.custom<RawRequest>().meta({ override: { type: 'string', format: 'binary' } });

/** @throws ApiError BAD_REQUEST if the body is too long, cut off, or compressed. */
export async function readRaw(request: IncomingMessage, maxBytes: number): Promise<RawRequest> {
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw badRequest('Body must not be compressed');
  return { bytes: await readBytes(request, maxBytes), headers: request.headers };
}
