import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Busboy } from 'busboy';
import { z } from 'zod';
import { badRequest } from '../ground/api-error.ts';
import { readBytes } from './read-bytes.ts';

/**
 * The one file of a form. It serialises to its digest, so that a repeated request can be distinguished from a different
 * one.
 */
export interface Upload {
  bytes: Buffer;
  toJSON(): unknown;
}

/** The body of an endpoint that takes a file. */
export const UploadBody = z.object({
  file: z.custom<Upload>().meta({ override: { type: 'string', format: 'binary' } }),
});

/** Bytes of a form besides its file: boundaries, headers of parts, ignored fields. */
const overheadBytes = 16 * 1024;
const form = 'multipart/form-data with one file, such as curl -F file=@icon.png sends';

/**
 * Reads the file of a request with a form. File names and types from the client are not used. At most four further
 * fields are allowed, and ignored.
 *
 * @throws ApiError BAD_REQUEST if the body is not such a form, is cut off or too long, or has no file or several.
 */
export async function readUpload(request: IncomingMessage, maxBytes: number): Promise<z.infer<typeof UploadBody>> {
  const type = request.headers['content-type'];
  if (type === undefined || !/^multipart\/form-data\s*;/i.test(type))
    throw badRequest(`Body must be ${form}: got ${type ?? 'no content type'}`);
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw badRequest('Body must not be compressed');
  const body = await readBytes(request, maxBytes + overheadBytes);
  const bytes = await fileOf(body, await formParser(request, maxBytes), maxBytes);
  const digest = createHash('sha256').update(bytes).digest('hex');
  return { file: { bytes, toJSON: () => digest } };
}

function fileOf(body: Buffer, parser: Busboy, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let file: Buffer | undefined;
    let failure: Error | undefined;
    const fail = (message: string): void => void (failure ??= badRequest(message));
    const tooMany = (): void => fail(`Body has too many parts: send ${form}`);
    parser.on('file', (_name, stream) => {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('limit', () => fail(`File must not be longer than ${maxBytes} bytes`));
      stream.on('error', () => undefined); // the form fails, too
      stream.on('end', () => void (file = Buffer.concat(parts)));
    });
    parser.on('filesLimit', tooMany).on('partsLimit', tooMany).on('fieldsLimit', tooMany);
    parser.on('error', () => fail(`Body is not whole or no form: send ${form}`));
    parser.on('close', () => {
      if (failure !== undefined) reject(failure);
      else if (file === undefined) reject(badRequest(`Body has no file: send ${form}`));
      else resolve(file);
    });
    parser.end(body);
  });
}

/** @throws ApiError BAD_REQUEST if the type of the body names no boundary */
export async function formParser({ headers }: IncomingMessage, maxBytes: number): Promise<Busboy> {
  const { default: busboy } = await import('busboy'); // few requests need it
  try {
    return busboy({
      headers,
      // busboy reports the limit at `fileSize` bytes, but a file of exactly `maxBytes` is allowed
      limits: { files: 1, parts: 5, fields: 4, fileSize: maxBytes + 1, fieldNameSize: 100, fieldSize: 1024 },
    });
  } catch {
    throw badRequest(`Content type must name the boundary of the parts: send ${form}`);
  }
}
