import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import { Readable } from 'node:stream';
import { etagOf, maxParts } from '../../network/multipart.ts';
import type { Clock } from '../../time/clock.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { BucketConnections, RequestFailed } from './bucket-request.ts';
import { Patience } from './patience.ts';
import { SignedAddresses } from './signed-addresses.ts';
import type { SignParts } from './signed-addresses.ts';

const maxAtOnce = 4;
/** What the parts in flight and the one that is filled may take together, if that is two parts or more. */
const maxBufferedBytes = 96 * 1024 * 1024;

export interface UploadOptions {
  /** Signs addresses for PUT of parts, by the control plane. Each call is made again while it fails. */
  addresses: SignParts;
  /** Size of all parts but the last one; the control plane chooses it by `partBytesFor`. */
  partBytes: number;
  /** Certificates in PEM of the authority of the bucket. */
  ca?: string | undefined;
  clock: Clock;
  /** From 0 to 1: the jitter of what is tried again. */
  random: () => number;
  /** Called with the number of bytes that the bucket has. */
  progress?: ((bytes: number) => void) | undefined;
}

/** What a bucket has got. The control plane completes the upload. */
export interface Uploaded {
  bytes: number;
  /** Of all bytes, in hex. */
  sha256: string;
  parts: number;
  /** Of each part, in hex. */
  md5s: readonly string[];
  /** As S3 makes it of these; absent where the bucket encrypts by a key service, and makes its ETags in another way. */
  etag: string | undefined;
}

interface Part {
  number: number;
  body: Buffer;
  md5: Buffer;
}

/**
 * Sends a stream to a bucket in parts, at most four at once. Takes no more of the source than it has room for: two parts at
 * least, and 96 MiB at most if more than two are in memory. A part that fails is sent again until the trouble of all parts has
 * lasted for an hour. When this settles, nothing of it goes on, and the source was read to its end or is destroyed; what
 * the bucket has got of a failed upload stays there until the control plane aborts it.
 *
 * @param source a Readable, or what ends by itself when `signal` aborts
 * @throws RuntimeFailure `transfer_failed`, what `source` throws, or the signal's reason
 */
export async function upload(
  source: AsyncIterable<Uint8Array>,
  options: UploadOptions,
  signal: AbortSignal,
): Promise<Uploaded> {
  await using sending = new Upload(options, signal);
  const chunks = source[Symbol.asyncIterator]();
  let hasEnded = false;
  try {
    for (;;) {
      const { done, value } = await unlessAborted(chunks.next(), sending.signal);
      hasEnded = done === true;
      if (hasEnded) break;
      await sending.take(value as Uint8Array); // it has not ended
    }
    return await sending.end();
  } finally {
    if (source instanceof Readable) source.destroy();
    else if (!hasEnded) void Promise.resolve(chunks.return?.()).catch(() => undefined);
  }
}

/** One upload. Disposing ends it and waits until nothing of it goes on. */
class Upload implements AsyncDisposable {
  /** Aborts when the caller's signal does, and when a part has failed for good. */
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #options: UploadOptions;
  readonly #connections: BucketConnections;
  readonly #addresses: SignedAddresses;
  readonly #patience: Patience;
  readonly #atOnce: number;
  readonly #whole = createHash('sha256');
  /** Memory of parts that are done. */
  readonly #free: Buffer[] = [];
  readonly #flying = new Set<Promise<void>>();
  readonly #md5s: Buffer[] = [];
  #filling: { body: Buffer; length: number; md5: Hash } | undefined;
  #parts = 0;
  #bytes = 0;
  #confirmedBytes = 0;
  #hasMd5s = true;

  constructor(options: UploadOptions, signal: AbortSignal) {
    const { addresses, partBytes, ca, clock, random } = options;
    this.#options = options;
    this.signal = AbortSignal.any([signal, this.#stop.signal]);
    this.#atOnce = Math.min(maxAtOnce, Math.max(1, Math.floor(maxBufferedBytes / partBytes) - 1));
    this.#connections = new BucketConnections({ ca, most: this.#atOnce, clock });
    this.#addresses = new SignedAddresses(addresses, maxParts, clock);
    this.#patience = new Patience(clock, random);
  }

  /** Resolves when there is room for more. */
  async take(chunk: Uint8Array): Promise<void> {
    this.#whole.update(chunk);
    this.#bytes += chunk.length;
    const { partBytes } = this.#options;
    if (this.#bytes > maxParts * partBytes)
      throw new RuntimeFailure(
        'transfer_failed',
        `There are more than ${maxParts * partBytes} bytes, which is what ${maxParts} parts of ${partBytes} bytes hold: an upload of that size needs larger parts`,
        { retryable: false },
      );
    for (let from = 0; from < chunk.length;) {
      this.#filling ??= {
        body: this.#free.pop() ?? Buffer.allocUnsafeSlow(partBytes),
        length: 0,
        md5: createHash('md5'),
      };
      const filling = this.#filling;
      const piece = chunk.subarray(from, from + partBytes - filling.length);
      filling.body.set(piece, filling.length);
      filling.md5.update(piece);
      filling.length += piece.length;
      from += piece.length;
      if (filling.length === partBytes) await this.#begin();
    }
  }

  async end(): Promise<Uploaded> {
    // an upload has one part at least, if an empty one
    if (this.#filling !== undefined || this.#parts === 0) await this.#begin();
    while (this.#flying.size > 0) await unlessAborted(Promise.race(this.#flying), this.signal);
    this.signal.throwIfAborted();
    return {
      bytes: this.#bytes,
      sha256: this.#whole.digest('hex'),
      parts: this.#parts,
      md5s: this.#md5s.map((md5) => md5.toString('hex')),
      etag: this.#hasMd5s ? etagOf(this.#md5s) : undefined,
    };
  }

  /** Begins to send what is filled, once there is room for it. */
  async #begin(): Promise<void> {
    while (this.#flying.size >= this.#atOnce) await unlessAborted(Promise.race(this.#flying), this.signal);
    const filled = this.#filling ?? { body: Buffer.alloc(0), length: 0, md5: createHash('md5') };
    this.#filling = undefined;
    this.#parts += 1;
    const part = { number: this.#parts, body: filled.body.subarray(0, filled.length), md5: filled.md5.digest() };
    this.#md5s.push(part.md5);
    const flight = this.#send(part).then(
      () => {
        this.#flying.delete(flight);
        this.#free.push(filled.body);
        this.#confirmedBytes += part.body.length;
        this.#options.progress?.(this.#confirmedBytes);
      },
      (error: unknown) => {
        this.#flying.delete(flight);
        this.#stop.abort(error);
      },
    );
    this.#flying.add(flight);
  }

  /** Sends a part, again and again. */
  async #send(part: Part): Promise<void> {
    let refusals = 0;
    for (let tries = 1; ; tries += 1) {
      let address: string | undefined;
      try {
        address = await this.#addresses.of(part.number, this.signal);
        const asksFirst = tries > 1;
        const { etag, isMd5 } = await this.#connections.put(address, { ...part, asksFirst }, this.signal);
        this.#require(part, etag, isMd5);
        this.#addresses.used(part.number);
        this.#patience.recovered(part.number);
        return;
      } catch (error) {
        const isRefused = error instanceof RequestFailed && error.kind === 'refused';
        refusals = isRefused ? refusals + 1 : 0;
        if (isRefused && address !== undefined) this.#addresses.refused(part.number, address);
        await this.#patience.bear(part.number, tries, refusals, error, this.signal);
      }
    }
  }

  #require(part: Part, etag: string, isMd5: boolean): void {
    if (!isMd5) this.#hasMd5s = false;
    else if (etag !== part.md5.toString('hex'))
      throw new RequestFailed('passing', `The bucket has other bytes of part ${part.number} than were sent to it`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('The upload is over'));
    await Promise.all(this.#flying);
    this.#connections[Symbol.dispose]();
  }
}
