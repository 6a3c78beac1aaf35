import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { Clock } from '../../time/clock.ts';
import { badRequest } from '../ground/api-error.ts';
import { withoutDeadline } from './body-deadline.ts';
import { formParser } from './upload.ts';

/** A client that sends nothing for so long is gone, and none sends for longer than this in all. */
const idleMs = 60_000;
const mostMs = 12 * 3_600_000;

const form = 'multipart/form-data with one file, such as curl -F file=@dump.sql sends';

/**
 * The file of a form, which is read as it comes and held nowhere. A request that is decided again gets what became of its
 * bytes the first time.
 */
export interface StreamedUpload {
  /** Bytes of it at most, as the client says; absent: it does not. */
  sizeBytes?: number;
  /** Reads the file by `work`, once. @throws what `work` throws; ApiError BAD_REQUEST through it if the form is cut off */
  once<T>(work: (bytes: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>;
  /** Forms with one file are alike for the key of a request that is repeated. */
  toJSON(): unknown;
}

/** What is in a field of JSON is no file. */
const uploads = new WeakSet<object>();

/** The part of a body that is a file, of an endpoint that reads it as it comes. */
export const StreamedFile = z
  .custom<StreamedUpload>((it) => typeof it === 'object' && it !== null && uploads.has(it), 'Must be a file in a form')
  .meta({ override: { type: 'string', format: 'binary' } });

/** Whether a request has a form. */
export function hasForm(request: IncomingMessage): boolean {
  return /^multipart\/form-data\s*;/i.test(request.headers['content-type'] ?? '');
}

/**
 * Begins to read the form of a request, up to its file. The client may take 12 hours, and at most 60 s for the next bytes.
 *
 * @throws ApiError BAD_REQUEST if there is no file
 */
export async function openUpload(
  request: IncomingMessage,
  { maxBytes, clock }: { maxBytes: number; clock: Clock },
): Promise<{ file: StreamedUpload }> {
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw badRequest('Body must not be compressed: the file in it may be');
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  if (length > maxBytes) throw badRequest(`File must not be longer than ${maxBytes} bytes`);
  const parser = await formParser(request, maxBytes);
  let failure: Error | undefined;
  const fail = (message: string): void => {
    failure ??= badRequest(message);
  };
  const isOver = new Promise<void>((resolve) => {
    parser.once('close', resolve);
  });
  const tooMany = (): void => fail(`Body has too many parts: send ${form}`);
  parser.on('filesLimit', tooMany).on('partsLimit', tooMany).on('fieldsLimit', tooMany);
  parser.on('error', () => fail(`Body is not whole or no form: send ${form}`));
  const began = new Promise<Readable | undefined>((resolve) => {
    parser.once('file', (_name, stream) => resolve(stream));
    parser.once('close', () => resolve(undefined));
  });
  const cut = (): void => {
    if (request.complete) return;
    fail('Body was cut off');
    parser.destroy();
  };
  request.once('close', cut).once('error', cut);
  const limits = limitsOf(clock, (message) => {
    fail(message);
    parser.destroy();
  });
  parser.once('close', () => limits.end());
  request.on('data', () => limits.came());
  withoutDeadline(request);
  request.pipe(parser);
  const stream = await began;
  if (stream === undefined) throw failure ?? badRequest(`Body has no file: send ${form}`);
  stream.on('limit', () => fail(`File must not be longer than ${maxBytes} bytes`));
  stream.on('error', () => undefined); // the form fails, too
  const bytes = (async function* () {
    try {
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        limits.waits(false);
        yield chunk;
        limits.waits(true);
      }
      await isOver;
    } catch (error) {
      throw failure ?? error;
    } finally {
      limits.end();
      // what is not read any more is dropped, so that the answer can be sent
      request.unpipe(parser);
    }
    if (failure !== undefined) throw failure;
  })();
  let result: Promise<unknown> | undefined;
  const file: StreamedUpload = {
    ...(Number.isFinite(length) && { sizeBytes: length }),
    once: <T>(work: (all: AsyncIterable<Uint8Array>) => Promise<T>) => (result ??= work(bytes)) as Promise<T>, // of one handler
    toJSON: () => 'a file',
  };
  uploads.add(file);
  return { file };
}

/** Ends what takes too long. While the reader is slow, no byte of the client is missed. */
function limitsOf(clock: Clock, over: (message: string) => void) {
  let isWaiting = true;
  let cancelIdle = (): void => undefined;
  const arm = (): void => {
    cancelIdle();
    if (isWaiting) cancelIdle = clock.timer(idleMs, () => over(`Nothing of the body came for ${idleMs / 1000} s`));
  };
  const cancelAll = clock.timer(mostMs, () => over('Body took longer than 12 hours'));
  arm();
  return {
    came: arm,
    waits(now: boolean) {
      isWaiting = now;
      arm();
    },
    end() {
      isWaiting = false;
      cancelIdle();
      cancelAll();
    },
  };
}
