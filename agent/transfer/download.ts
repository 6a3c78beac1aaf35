import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Clock } from '../../time/clock.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { BucketConnections, RequestFailed } from './bucket-request.ts';
import type { Opened } from './bucket-request.ts';
import { Patience } from './patience.ts';
import { signedWithin } from './signed-addresses.ts';

/** What waits for a reader that is slower than the bucket. */
const bufferedBytes = 1024 * 1024;

export interface DownloadOptions {
  /** Signs an address for GET of the object, by the control plane. The call is made again while it fails. */
  address: (signal: AbortSignal) => Promise<string>;
  /** Certificates in PEM of the authority of the bucket. */
  ca?: string | undefined;
  /** What the object must have, as the upload said it: its size and, in hex, its SHA-256. */
  bytes: number;
  sha256: string;
  clock: Clock;
  /** From 0 to 1: the jitter of what is tried again. */
  random: () => number;
}

/**
 * Reads an object of a bucket. A connection that ends is followed by another one from the byte on that it had come to,
 * until the trouble has lasted for an hour. The stream fails, and does not end, if the object is not the expected one:
 * its reader must not use the bytes before that end. Destroying it ends everything at once.
 *
 * @throws (the stream) RuntimeFailure `transfer_failed`, or the signal's reason
 */
export function download(options: DownloadOptions, signal: AbortSignal): Readable {
  const over = new AbortController();
  const chunks = chunksOf(options, over.signal);
  const stream = new Readable({
    highWaterMark: bufferedBytes,
    read() {
      chunks.next().then(
        ({ done, value }) => {
          if (!stream.destroyed) stream.push(done === true ? null : value);
        },
        (error: Error) => stream.destroy(error),
      );
    },
    destroy(error, done) {
      signal.removeEventListener('abort', abort);
      over.abort(new Error('The download is over'));
      const ended = (): void => done(error);
      chunks.return(undefined).then(ended, ended);
    },
  });
  const abort = (): void => void stream.destroy(signal.reason as Error); // an error, unless a caller passed another value
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return stream;
}

async function* chunksOf(options: DownloadOptions, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { clock, random, bytes, sha256 } = options;
  using connections = new BucketConnections({ ca: options.ca, most: 1, clock });
  const patience = new Patience(clock, random);
  const hash = createHash('sha256');
  let address: string | undefined;
  let etag: string | undefined;
  let tries = 0;
  let refusals = 0;
  let isOver = false;
  for (let from = 0; !isOver;) {
    try {
      address ??= await signedWithin(options.address, clock, signal);
      using opened = await connections.get(address, { from, etag }, signal);
      requireSize(opened, bytes);
      etag ??= opened.etag;
      for (let chunk = await opened.next(); chunk !== undefined; chunk = await opened.next()) {
        tries = 0;
        refusals = 0;
        patience.recovered(1);
        from += chunk.length;
        if (from > bytes) throw otherObject(opened.host, `has more than ${bytes} bytes`);
        hash.update(chunk);
        yield chunk;
        if (from === bytes) break;
      }
      isOver = from === bytes;
      if (!isOver)
        throw new RequestFailed('passing', `${opened.host} ended its answer after ${from} of ${bytes} bytes`);
      const found = hash.digest('hex');
      if (found !== sha256) throw otherObject(opened.host, `has the SHA-256 ${found}, and not ${sha256}`);
    } catch (error) {
      const isRefused = error instanceof RequestFailed && error.kind === 'refused';
      refusals = isRefused ? refusals + 1 : 0;
      if (isRefused) address = undefined;
      tries += 1;
      await patience.bear(1, tries, refusals, error, signal);
    }
  }
}

/** @throws RuntimeFailure if the object is of another size, before any of its bytes is given on */
function requireSize({ host, totalBytes }: Opened, bytes: number): void {
  if (!Number.isNaN(totalBytes) && totalBytes !== bytes)
    throw otherObject(host, `has ${totalBytes} bytes, and not ${bytes}`);
}

function otherObject(host: string, found: string): RuntimeFailure {
  return new RuntimeFailure(
    'transfer_failed',
    `The object at ${host} ${found}: it was changed since it was written, or is another one. Take another backup`,
    { retryable: false },
  );
}
