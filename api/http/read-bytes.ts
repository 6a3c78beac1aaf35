import type { IncomingMessage } from 'node:http';
import { badRequest } from '../ground/api-error.ts';

/**
 * Reads the bytes of a request's body. A body that is too long is left unread on the open connection, so that the
 * client still gets its answer.
 *
 * @throws ApiError BAD_REQUEST if the body is too long or cut off.
 */
export function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const onData = (part: Buffer): void => {
      length += part.length;
      if (length > maxBytes) end(tooLong(maxBytes));
      else parts.push(part);
    };
    const onEnd = (): void => end();
    const onClose = (): void => end(badRequest('Body was cut off'));
    const end = (error?: Error): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      if (error === undefined) resolve(Buffer.concat(parts));
      else reject(error);
    };
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) end(tooLong(maxBytes));
    else request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  });
}

function tooLong(maxBytes: number): Error {
  return badRequest(`Body must not be longer than ${maxBytes} bytes`);
}
